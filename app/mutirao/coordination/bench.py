"""The raw floor of Redis for `mutirao bench`."""

from __future__ import annotations

from mutirao.coordination.connection import Redis, wrapped
from mutirao.coordination.keys import DEFAULT
from mutirao.loop import boottime

_PIPELINE = 1000


def pipelined_sets(client: Redis, pipelines: int) -> float:
    """SETs per second, a thousand to a pipeline; the keys are gone afterwards."""
    names = [DEFAULT.bench(number) for number in range(_PIPELINE)]
    with wrapped():
        started = boottime()
        for _ in range(pipelines):
            pipeline = client.pipeline(transaction=False)
            for name in names:
                pipeline.set(name, "1")
            pipeline.execute()
        took = boottime() - started
        client.unlink(*names)
    return pipelines * _PIPELINE / took
