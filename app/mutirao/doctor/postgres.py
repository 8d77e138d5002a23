"""PostgreSQL as this node meets it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mutirao.doctor.finding import Finding, fail, ok, warn
from mutirao.store.doctor import Server
from mutirao.store.migrate import NEWEST, OLDEST, head

SKEW_NOTED, SKEW_WRONG = 1.0, 30.0
FEW_SESSIONS = 10
LONG_TRANSACTION = 300.0


def judge(server: Server) -> Iterator[Finding]:
    """Everything about a server that answers."""
    for check in CHECKS:
        yield check(server)


def _version(server: Server) -> Finding:
    major, minor = divmod(server.version, 10000)
    said = f"PostgreSQL {major}.{minor}"
    if major < OLDEST:
        return fail("postgres.version", f"{said} is too old", f"use {OLDEST} to {NEWEST}")
    if major > NEWEST:
        return warn("postgres.version", f"{said} is newer than what was tested", f"use {OLDEST} to {NEWEST}")
    return ok("postgres.version", said)


def _encoding(server: Server) -> Finding:
    if server.encoding != "UTF8":
        hint = "move to a database with ENCODING 'UTF8'"
        return fail("postgres.encoding", f"{server.encoding} cannot hold every text", hint)
    return ok("postgres.encoding", "UTF8")


def _schema(server: Server) -> Finding:
    wanted = head()
    if server.revision is None:
        return fail("postgres.schema", "the database is empty", "run `mutirao migrate`")
    if server.revision < wanted:
        return fail(
            "postgres.schema", f"at {server.revision}, this version needs {wanted}", "run `mutirao migrate`"
        )
    if server.revision > wanted:
        hint = "this node runs an older version than the others: upgrade it"
        return warn("postgres.schema", f"at {server.revision}, this version knows {wanted}", hint)
    return ok("postgres.schema", f"at {wanted}, the newest")


def _writable(server: Server) -> Finding:
    if server.read_only:
        return fail(
            "postgres.writable", "this server is read-only", "point the `postgres` setting at the primary"
        )
    return ok("postgres.writable", "takes writes")


def _durable(server: Server) -> Finding:
    if not server.durable:
        return fail(
            "postgres.durable", "fsync or full_page_writes is off",
            "set both to on: a power cut loses what was acknowledged",
        )  # fmt: skip
    return ok("postgres.durable", "fsync and full_page_writes are on; our sessions commit synchronously")


def _clock(server: Server) -> Finding:
    where = "ahead of" if server.ahead > 0 else "behind"
    said = f"its clock is {abs(server.ahead):.1f} s {where} this machine's"
    if abs(server.ahead) < SKEW_NOTED:
        return ok("postgres.clock", said)
    judged = warn if abs(server.ahead) < SKEW_WRONG else fail
    return judged("postgres.clock", said, "synchronise both (chrony): due times follow PostgreSQL's clock")


def _sessions(server: Server) -> Finding:
    left = server.connections - server.sessions
    said = f"{server.sessions} of {server.connections} sessions in use"
    if left < FEW_SESSIONS:
        return warn("postgres.sessions", said, "raise max_connections: a node needs up to 16")
    return ok("postgres.sessions", said)


def _sessions_stay(server: Server) -> Finding:
    if server.idle_session_timeout:
        hint = "set it to 0 for this role: ALTER ROLE … SET idle_session_timeout = 0"
        return warn("postgres.timeouts", f"idle_session_timeout is {server.idle_session_timeout:g} s", hint)
    return ok("postgres.timeouts", "idle sessions may stay; all other timeouts are set by our sessions")


def _vacuum(server: Server) -> Finding:
    if not server.autovacuum:
        return fail("postgres.vacuum", "autovacuum is off", "turn it on: queues grow without bound otherwise")
    if server.oldest_transaction > LONG_TRANSACTION:
        return warn(
            "postgres.vacuum", f"a transaction is open for {server.oldest_transaction:.0f} s",
            "end it (pg_stat_activity, pg_terminate_backend): dead rows cannot go while it lasts",
        )  # fmt: skip
    return ok("postgres.vacuum", "autovacuum is on and nothing holds it up")


CHECKS: tuple[Callable[[Server], Finding], ...] = (
    _version, _encoding, _schema, _writable, _durable, _clock, _sessions, _sessions_stay, _vacuum,
)  # fmt: skip
