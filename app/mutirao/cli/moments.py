"""Times on the command line: ISO 8601, with an offset, so that they are the same instant everywhere."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click


class Moment(click.ParamType[datetime]):
    """A time with an offset."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The time; fails with what is wrong with it."""
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is not a time such as 2026-01-31T08:00:00Z", param, ctx)
        if moment.utcoffset() is None:
            self.fail(f"{value!r} needs an offset: end it with Z or +01:00", param, ctx)
        return moment
