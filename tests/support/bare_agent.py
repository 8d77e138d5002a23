"""An agent without stores: runners under a short lease, to be killed and frozen by tests.

Reads one JSON object from its argument: {node, modules, tasks: [[handler, payload], …], lease, directory}.
Prints one JSON line for each thing that happens.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from uuid import UUID, uuid4

from mutirao.agent.runners import Runners, Task
from mutirao.logs import configure
from mutirao.loop import boottime
from mutirao.registry import HandlerConfig


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    configure("error")
    order = json.loads(sys.argv[1])
    config = HandlerConfig(modules=tuple(order["modules"]))
    runners = Runners(UUID(order["node"]), 2, config, Path(order["directory"]))
    runners.start()
    runners.extend(boottime() + order["lease"])

    def beat() -> None:
        while True:
            time.sleep(order["lease"] / 5)
            runners.extend(boottime() + order["lease"])

    threading.Thread(target=beat, daemon=True).start()
    waiting = [
        Task(uuid4(), 1, handler, json.dumps(payload).encode(), 60.0) for handler, payload in order["tasks"]
    ]
    say(event="started", guard=runners.guard_pid)
    while runners.alive:
        if runners.fenced:
            say(event="fenced", at=boottime())
            runners.rearm(boottime() + order["lease"])
            waiting = [Task(uuid4(), 1, "echo", b'{"message": "again"}', 5.0)]
        waiting = waiting[runners.submit(waiting) :]
        for finished in runners.poll(0.2):
            say(event="finished", outcome=finished.outcome)
    say(event="guard_died")
    runners.close()
    sys.exit(4)


if __name__ == "__main__":
    main()
