"""One handler, `count`, in two versions: the second takes no negative numbers."""

from __future__ import annotations

from pathlib import Path

_MODULE = """
from pathlib import Path

from pydantic import Field

from mutirao.contract import Context, Payload, handler


class Count(Payload):
    number: int{bounds}
    file: str


@handler("count", max_retries=0)
def count(payload: Count, context: Context) -> None:
    with Path(payload.file).open("a") as file:
        file.write(f"{{context.job_id}} {version}\\n")
"""


def version(directory: Path, number: int) -> str:
    """The path of version 1 or 2 as a module; it notes which job it ran as which version."""
    path = directory / f"count_{number}.py"
    path.write_text(_MODULE.format(bounds=" = Field(ge=0)" if number == 2 else "", version=number))
    return str(path)
