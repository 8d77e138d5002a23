"""The whole examination: theme by theme, none of which can keep the others from being looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

from mutirao.coordination.connection import connect
from mutirao.coordination.doctor import RedisExamination
from mutirao.coordination.keys import Keys
from mutirao.doctor import cluster, postgres, redis
from mutirao.doctor.finding import Finding, Theme, fail, guarded, ok, warn
from mutirao.doctor.machine import machine
from mutirao.doctor.node import node, node_id
from mutirao.doctor.web import web
from mutirao.errors import CoordinationUnavailable, SettingsError
from mutirao.settings import Settings
from mutirao.store.database import Database
from mutirao.store.doctor import Examination, why_not


def examine(load: Callable[[], Settings]) -> Iterator[Finding]:
    """Every finding about the node with these settings, and about the machine where there are none."""
    yield from guarded("machine", machine)
    try:
        settings = load()
    except SettingsError as error:
        yield fail("settings", error.message, error.hint or "see `mutirao settings check FILE`")
        return
    yield ok("settings", f"valid, for node {settings.node_name}")
    for name, theme in THEMES.items():
        yield from guarded(name, partial(theme, settings))


def _stores(settings: Settings) -> Iterator[Finding]:
    client = connect(settings.redis.get_secret_value(), timeout=2.0)
    seen = RedisExamination(client, Keys(settings.redis_prefix))
    found = None
    try:
        found = seen.server()
        yield from redis.judge(found, settings)
    except CoordinationUnavailable as error:
        hint = "bring it back, or correct the `redis` setting; until then all goes on by PostgreSQL, slower"
        yield warn("redis.connect", error.message, hint)
    dsn = settings.postgres.get_secret_value()
    if why := why_not(dsn):
        hint = "bring it back, or correct the `postgres` setting: nothing starts without it"
        yield fail("postgres.connect", why, hint)
        return
    with closing(Database(dsn, application_name="mutirao-doctor")) as database:
        stored = Examination(database)
        server = stored.server()
        yield from postgres.judge(server)
        if server.revision is None:
            return
        yield from cluster.membership(stored, settings, node_id(settings))
        yield cluster.coordinator(stored)
        if found is not None:
            yield cluster.peers(stored, seen.unheard)


THEMES: dict[str, Theme] = {"node": node, "stores": _stores, "web": web}
