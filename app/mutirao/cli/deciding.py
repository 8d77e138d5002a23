"""Replaying and discarding many dead letters: each once, however many die again meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import click

from mutirao.cli.progress import progress
from mutirao.client.answers import Document
from mutirao.client.rest import MAX_BULK, Rest

_PAGE = 500
_COUNTED = 2000

DONE = {"replay": "replayed", "discard": "discarded"}


def decide(nodes: Rest, verb: str, ids: Sequence[str], *, as_json: bool) -> None:
    """Replays or discards the dead letters of these ids; exits with 5 when one was none any more."""
    if len(ids) == 1:
        done = nodes.replay(ids[0]) if verb == "replay" else nodes.discard(ids[0])
        click.echo(done.text if as_json else f"{done['id']} {_now(verb)}")
        return
    _bulk(nodes, verb, iter(ids), len(ids), as_json=as_json)


def decide_all(nodes: Rest, verb: str, wanted: Mapping[str, str | None], *, yes: bool, as_json: bool) -> None:
    """Replays or discards every dead letter that fits, as of now, after asking when a person is there."""
    count = sum(1 for _ in islice(_letters(nodes, wanted), _COUNTED + 1))
    if count == 0:
        click.echo("no dead letters", err=True)
        return
    shown = f"more than {_COUNTED}" if count > _COUNTED else str(count)
    if not yes and sys.stdin.isatty():
        click.confirm(f"{verb.capitalize()} {shown} dead letters?", abort=True, err=True)
    total = None if count > _COUNTED else count
    _bulk(nodes, verb, _letters(nodes, wanted), total, as_json=as_json)


def _letters(nodes: Rest, wanted: Mapping[str, str | None]) -> Iterator[str]:
    """The ids from the latest death back: what dies from now on comes before them and is not met again."""
    cursor = None
    while True:
        page = nodes.dead_letters(**wanted, limit=_PAGE, cursor=cursor)
        yield from (letter["id"] for letter in page["dead_letters"])
        cursor = page["next_cursor"]
        if cursor is None:
            return


def _bulk(nodes: Rest, verb: str, ids: Iterator[str], total: int | None, *, as_json: bool) -> None:
    changed = left = 0
    with progress(DONE[verb], total) as advance:
        while chunk := list(islice(ids, MAX_BULK)):
            answer = nodes.decide_many(verb, {"ids": chunk})
            _show(verb, answer, as_json=as_json)
            changed += len(answer[DONE[verb]])
            left += answer["left"]
            advance(len(chunk))
    rest = f", {left} were no dead letters any more" if left else ""
    click.echo(f"{changed} {DONE[verb]}{rest}", err=True)
    if left:
        sys.exit(5)


def _show(verb: str, answer: Document, *, as_json: bool) -> None:
    if as_json:
        click.echo(answer.text)
        return
    for job in answer[DONE[verb]]:
        click.echo(f"{job} {_now(verb)}")


def _now(verb: str) -> str:
    return "queued" if verb == "replay" else "discarded"
