"""One request over all addresses: tried at the next one while the answer is lost or 503, within a time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import httpx

from mutirao.client.addresses import Addresses
from mutirao.client.answers import Document, NoAnswer, read
from mutirao.errors import Conflict, MutiraoError, Unavailable
from mutirao.settings import environment

CONNECT = 3.0
TRY = 15.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 4.0
_HINT = "Is a node up? `mutirao up` starts a cluster here; name other nodes with --url or MUTIRAO_URL."


@dataclass(frozen=True, slots=True)
class Call:
    """A request; `made` tells, when a conflict follows a lost answer, what the lost try has done."""

    method: str
    path: str
    body: bytes | None = None
    query: Mapping[str, str] | None = None
    made: Callable[[], Document | None] = lambda: None


class Transport:
    """Sends calls for at most `timeout` seconds each; any thread may use it.

    Every call must be safe to repeat: it may reach several nodes, or one node twice.
    `refused` is how long to go on while nobody listens at any address and none has answered before.
    `waiting` is told, once a call, why it takes longer.
    """

    def __init__(
        self,
        urls: str | Sequence[str] | None,
        token: str | None,
        *,
        timeout: float,
        refused: float | None = None,
        waiting: Callable[[Unavailable], None] = lambda _: None,
    ) -> None:
        self.addresses = Addresses(urls)
        self._timeout = timeout
        self._refused = timeout if refused is None else min(refused, timeout)
        self._waiting = waiting
        token = token if token is not None else environment("TOKEN")
        headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._http = httpx.Client(headers=headers, trust_env=False, limits=httpx.Limits(max_connections=64))

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def send(self, call: Call) -> Document:
        """The answer of the first address that has one; Unavailable when none has within the time."""
        began, pause, lost = time.monotonic(), _FIRST_PAUSE, False
        while True:
            failures: dict[str, NoAnswer] = {}
            for url in self.addresses:
                left = began + self._timeout - time.monotonic()
                if failures and left <= 0:
                    raise _nobody(failures)
                try:
                    return self._send_to(url, call, _share(left, len(self.addresses) - len(failures)), lost)
                except NoAnswer as failure:
                    failures[url] = failure
                    lost = lost or failure.arrived
            pause = self._pause(began, pause, failures)

    def _send_to(self, url: str, call: Call, limit: float, lost: bool) -> Document:
        try:
            document = self._once(url, call, limit)
        except Conflict:
            self.addresses.answered(url)
            if lost and (made := call.made()) is not None:
                return made
            raise
        except NoAnswer:
            raise
        except MutiraoError:
            self.addresses.answered(url)
            raise
        self.addresses.answered(url)
        return document

    def _once(self, url: str, call: Call, limit: float) -> Document:
        try:
            response = self._http.request(
                call.method,
                url + call.path,
                content=call.body,
                params=call.query,
                headers={} if call.body is None else {"Content-Type": "application/json"},
                timeout=httpx.Timeout(limit, connect=min(CONNECT, limit)),
            )
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise NoAnswer(
                _why(error), refused=isinstance(error, httpx.ConnectError), arrived=False
            ) from None
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise NoAnswer(_why(error)) from None
        return read(response)

    def _pause(self, began: float, pause: float, failures: Mapping[str, NoAnswer]) -> float:
        """Waits before the next round, with jitter, and tells the wait of the one after it."""
        nobody = all(failure.refused for failure in failures.values()) and not self.addresses.met
        left = began + (self._refused if nobody else self._timeout) - time.monotonic()
        asked = min((failure.after for failure in failures.values()), default=0.0)
        wait = random.uniform(0.5, 1.0) * max(pause, min(asked, _LONGEST_PAUSE))  # noqa: S311 - jitter, no secret
        if wait > left or all(failure.broken for failure in failures.values()):
            raise _nobody(failures)
        if pause == _FIRST_PAUSE:
            self._waiting(_nobody(failures))
        time.sleep(wait)
        return min(pause * 2, _LONGEST_PAUSE)


def _share(left: float, unasked: int) -> float:
    """How long one address may take, so that one that is frozen leaves time for the others."""
    share = left if unasked == 1 else max(left / unasked, min(5.0, left / 2))
    return max(0.1, min(TRY, share))


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__


def _nobody(failures: Mapping[str, NoAnswer]) -> Unavailable:
    told = [f"{url}: {failure.message}" for url, failure in failures.items()]
    hint = next((failure.hint for failure in failures.values() if failure.hint), _HINT)
    if len(told) == 1:
        return Unavailable(told[0].replace(": ", " does not answer: ", 1), hint=hint)
    return Unavailable(f"none of these nodes answers: {'; '.join(told)}", hint=hint)
