"""Two clusters on one Redis: with prefixes of their own neither notices the other."""

from __future__ import annotations

from pathlib import Path

import redis

from tests.integration.conftest import DatabaseServer
from tests.support.agents import site
from tests.support.waiting import until


def test_two_clusters_share_a_redis_server(
    tmp_path: Path,
    database_server: DatabaseServer,
    migrated_template: str,
    postgres_dsn: str,
    redis_url: str,
) -> None:
    other_dsn = database_server.create(migrated_template)
    try:
        with (
            site(tmp_path / "one", postgres_dsn, redis_url) as one,
            site(tmp_path / "two", other_dsn, redis_url) as two,
        ):
            agents = [
                made.agent(name, redis_prefix=name).start() for made, name in ((one, "north"), (two, "south"))
            ]
            for agent in agents:
                # By the leader key, at once: waiting for the term to fall silent would take 15 s.
                assert agent.event("office_taken", 10.0)["without_redis"] is False
            for made in (one, two):
                for job in [made.record() for _ in range(20)]:
                    made.becomes(job, "succeeded")
                    assert len(made.traces(job)) == 1
            assert not any(agent.events("office_left") for agent in agents)
            client = redis.Redis.from_url(redis_url, decode_responses=True)
            until(
                lambda: {key.split(":")[0] for key in client.scan_iter()} == {"north", "south"}, 5, "prefixes"
            )
            assert {client.get(f"{agent.name}:leader").split(":")[0] for agent in agents} == {  # type: ignore[union-attr]
                str(agent.id) for agent in agents
            }
    finally:
        database_server.drop(other_dsn)
