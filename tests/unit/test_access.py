"""Who is let in, by the header alone."""

from __future__ import annotations

import base64

import pytest
from pydantic import SecretStr

from mutirao.services.access import Access


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "header",
    ["Bearer s3:cret", "bearer  s3:cret ", basic("me:s3:cret"), basic(":s3:cret").replace("B", "b", 1)],
)
def test_the_token_is_let_in(header: str) -> None:
    assert Access(SecretStr("s3:cret")).granted(header)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer s3",
        "s3:cret",
        basic("s3:cret"),
        "Basic s3:cret",
        "Basic \xff",
        "Bearer \xff",
        "Digest s3:cret",
    ],
)
def test_nothing_else_is(header: str) -> None:
    assert not Access(SecretStr("s3:cret")).granted(header)


def test_an_empty_token_lets_nobody_in_and_none_everybody() -> None:
    for header in ("", "Bearer", "Bearer ", basic("me:")):
        assert not Access(SecretStr("")).granted(header)
        assert Access(None).granted(header)
