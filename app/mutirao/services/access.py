"""The secret of a node: whoever wants to know or change something shows it, where one is set."""

from __future__ import annotations

import base64
import binascii
import hmac

from pydantic import SecretStr


class Access:
    """Judges `Authorization` headers against the token of the settings; without one everybody is let in."""

    def __init__(self, token: SecretStr | None) -> None:
        self._token = None if token is None else token.get_secret_value().encode()

    def granted(self, authorization: str) -> bool:
        """True for `Bearer TOKEN`, and for a browser's `Basic` with the token as the password."""
        if self._token is None:
            return True
        scheme, _, given = authorization.strip().partition(" ")
        shown = {"bearer": str.encode, "basic": _password}.get(scheme.lower(), _nothing)(given.strip())
        return hmac.compare_digest(shown, self._token)


def _password(given: str) -> bytes:
    try:
        return base64.b64decode(given, validate=True).partition(b":")[2]
    except (binascii.Error, ValueError):
        return b""


def _nothing(_given: str) -> bytes:
    return b""
