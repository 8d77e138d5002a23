"""Dead letters over REST: list, show, replay, discard; one or many."""

from __future__ import annotations

from uuid import UUID

from mutirao.domain.views import JobView, LetterFilter
from mutirao.services.jobs import Changed
from mutirao.services.requests import LettersByFilter, LettersById
from mutirao.services.services import Services
from mutirao.web.api.answers import Discarded, LetterPage, Replayed
from mutirao.web.api.jobs import ACTOR
from mutirao.web.api.operations import Answer, Api
from mutirao.web.api.queries import DeathQuery, LettersQuery
from mutirao.web.api.reading import Body, Received

_CHOSEN = Body((LettersById, LettersByFilter))
_NEXT = dict.fromkeys(("showDeadLetter", "replayDeadLetter", "discardDeadLetter"), "/dead_letters/0/id")
_DECIDED = {409: "it is no dead letter, or no longer one"}


def declare(api: Api, services: Services) -> None:
    """The operations under /dead-letters."""

    @api.get("/dead-letters", Answer(LetterPage, "a page", leads_to=_NEXT), query=LettersQuery)
    def list_dead_letters(query: LettersQuery) -> LetterPage:
        """Lists dead jobs that wait for a decision, the latest first."""
        wanted = LetterFilter(handler=query.handler, queue=query.queue, error_type=query.error_type)
        found = services.lists.dead_letters(wanted, query.cursor, query.limit)
        return LetterPage(found.items, found.next_cursor)

    @api.get("/dead-letters/<uuid:job_id>", Answer(JobView, "the dead job"))
    def show_dead_letter(job_id: UUID) -> JobView:
        """Shows one dead job with its attempts and its history."""
        return services.jobs.dead_letter(job_id)

    @api.post(
        "/dead-letters/<uuid:job_id>/replay",
        Answer(Changed, "it is queued again"),
        query=DeathQuery,
        refusals=_DECIDED,
    )
    def replay_dead_letter(job_id: UUID, query: DeathQuery) -> Changed:
        """Queues a dead job again, with a full set of attempts."""
        return services.jobs.replay(job_id, actor=ACTOR, attempt=query.attempt)

    @api.post(
        "/dead-letters/<uuid:job_id>/discard",
        Answer(Changed, "it is put aside"),
        query=DeathQuery,
        refusals=_DECIDED,
    )
    def discard_dead_letter(job_id: UUID, query: DeathQuery) -> Changed:
        """Puts a dead job aside for good."""
        return services.jobs.discard(job_id, actor=ACTOR, attempt=query.attempt)

    @api.post("/dead-letters/replay", Answer(Replayed, "these are queued again"), body=_CHOSEN)
    def replay_dead_letters(body: Received[LettersById | LettersByFilter]) -> Replayed:
        """Queues many dead jobs again, all in one transaction."""
        done = services.jobs.replay_many(body.value, actor=ACTOR)
        return Replayed(done.matched, done.done, done.left, done.next_cursor)

    @api.post("/dead-letters/discard", Answer(Discarded, "these are put aside"), body=_CHOSEN)
    def discard_dead_letters(body: Received[LettersById | LettersByFilter]) -> Discarded:
        """Puts many dead jobs aside for good, all in one transaction."""
        done = services.jobs.discard_many(body.value, actor=ACTOR)
        return Discarded(done.matched, done.done, done.left, done.next_cursor)
