"""The process in which payloads are tried; started by the agent's Judge only, and gone with it."""

from __future__ import annotations

import contextlib
import os
import socket
import sys

import msgspec

from mutirao.agent import proctree
from mutirao.agent.frames import pack_frame, read_frame
from mutirao.contract import PayloadRefused
from mutirao.registry import HandlerConfig, Registry, load_registry


def fault(registry: Registry, handler: str, payload: bytes) -> str | None:
    """Why the payload does not fit the handler, beginning with `.FIELD` where there is one; None: it fits."""
    binding = registry.bound(handler)
    if binding is None:
        return f": no handler `{handler}` here"
    try:
        binding.parse(payload)
    except PayloadRefused as error:
        return f"{'.' if error.field else ': '}{error.message}"
    except Exception as error:  # noqa: BLE001 (a handler's own validator may raise anything)
        return f": its validation raised {type(error).__name__}: {error}"
    return None


def serve(stream: socket.socket) -> None:
    """Loads the handlers, says so, then answers one payload after another until the stream is closed."""
    config = msgspec.msgpack.decode(read_frame(stream), type=HandlerConfig)
    try:
        registry = load_registry(config)
    except Exception as error:  # noqa: BLE001 (a handler module may raise anything)
        stream.sendall(pack_frame(_clean(str(error) or type(error).__name__)))
        return
    stream.sendall(pack_frame(""))
    while True:
        handler, payload = msgspec.msgpack.decode(read_frame(stream), type=tuple[str, bytes])
        why = fault(registry, handler, payload)
        stream.sendall(pack_frame(None if why is None else _clean(why)))


def _clean(text: str) -> str:
    return text.encode(errors="replace").decode()


def main() -> None:
    """Serves on the socket with descriptor `argv[1]`; is killed with the agent, whatever it is busy with."""
    proctree.die_with_parent()
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)
    with contextlib.suppress(EOFError, ConnectionError):
        serve(socket.socket(fileno=descriptor))


if __name__ == "__main__":
    main()
