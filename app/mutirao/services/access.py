"""The secret of a node: whoever wants to know or change something shows it, where one is set."""

from __future__ import annotations

import base64
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
        shown = _shown(authorization)
        return bool(shown) and hmac.compare_digest(shown, self._token)


def _shown(authorization: str) -> bytes:
    scheme, _, given = authorization.strip().partition(" ")
    if scheme.lower() == "bearer":
        return given.strip().encode()
    if scheme.lower() != "basic":
        return b""
    try:
        return base64.b64decode(given, validate=True).partition(b":")[2]
    except ValueError:
        return b""
