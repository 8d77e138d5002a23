"""The `mutirao` command: verbs are imported when used; an error is a message, a hint and an exit code."""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

import click
from click.shell_completion import CompletionItem

import mutirao
from mutirao.cli.trouble import explain
from mutirao.errors import (
    AlreadyRunning,
    Conflict,
    ContractError,
    InvalidInput,
    MutiraoError,
    NotFound,
    SettingsError,
    Unavailable,
)

# verb: (module, one-line help); each module has a click command named `command`.
VERBS: dict[str, tuple[str, str]] = {
    "agent": ("mutirao.cli.agent", "Run one node's agent."),
    "audit": ("mutirao.cli.audit", "Show who did what to which job."),
    "bench": ("mutirao.cli.bench", "Measure this machine on a private cluster."),
    "completion": ("mutirao.cli.completion", "Print what completes commands in your shell."),
    "dead-letter": ("mutirao.cli.dead_letter", "List, show, replay or discard dead jobs."),
    "doctor": ("mutirao.cli.doctor", "Examine this node from the inside."),
    "handlers": ("mutirao.cli.handlers", "List, show, check or try handlers."),
    "jobs": ("mutirao.cli.jobs", "List, show, follow or cancel jobs."),
    "migrate": ("mutirao.cli.migrate", "Bring the database schema up to date."),
    "nodes": ("mutirao.cli.nodes", "List the nodes."),
    "settings": ("mutirao.cli.settings", "Check a settings file."),
    "submit": ("mutirao.cli.submit", "Submit a job, or a file of them."),
    "up": ("mutirao.cli.up", "Run a whole cluster on this machine."),
    "web": ("mutirao.cli.web", "Run one node's web server."),
}

# Where --json leaves its mark in the context of a command.
AS_JSON = "mutirao.json"
INTERRUPTED = 130

EXIT_CODES: tuple[tuple[type[MutiraoError], int], ...] = (
    (InvalidInput, 2),
    (SettingsError, 2),
    (ContractError, 2),
    (Unavailable, 3),
    (NotFound, 4),
    (Conflict, 5),
    (AlreadyRunning, 5),
)


class LazyGroup(click.Group):
    """A group that imports a verb's module only when the verb is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every verb, sorted."""
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb's command, or None when there is no such verb."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(VERBS[cmd_name][0]).command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The verbs and options that begin so; again without importing any verb."""
        verbs = [verb for verb in self.list_commands(ctx) if verb.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(verb, help=VERBS[verb][1]) for verb in verbs), *options]

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the verb; what goes wrong is told as --json asks for, and has its exit code."""
        try:
            return super().invoke(ctx)
        except MutiraoError as error:
            report(error, as_json=bool(ctx.meta.get(AS_JSON)))
            ctx.exit(exit_code(error))
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the verbs without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(verb, VERBS[verb][1]) for verb in self.list_commands(ctx)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(mutirao.__version__, prog_name="mutirao")
def cli() -> None:
    """Mutirão: a distributed task scheduler for a handful of edge machines.

    Exit codes: 0 done, 1 failed, 2 invalid, 3 unavailable, 4 not found, 5 conflict, 130 interrupted.
    """


def exit_code(error: MutiraoError) -> int:
    """The documented exit code of an error."""
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), 1)


def report(error: MutiraoError, *, as_json: bool = False) -> None:
    """Says on standard error what is wrong and what to do, as the API does where JSON is wanted."""
    if as_json:
        click.echo(json.dumps(_problem(error), ensure_ascii=False), err=True)
        return
    field = f"{error.field}: " if isinstance(error, InvalidInput) and error.field else ""
    click.echo(f"mutirao: {field}{error.message}", err=True)
    for note in getattr(error, "__notes__", []):
        click.echo(f"  {note}", err=True)
    if error.hint:
        click.echo(f"  hint: {error.hint}", err=True)


def _problem(error: MutiraoError) -> dict[str, Any]:
    problem: dict[str, Any] = {"type": f"urn:mutirao:problem:{error.code}", "detail": error.message}
    if isinstance(error, InvalidInput) and error.field:
        first = {"field": error.field, "message": error.message}
        problem["errors"] = getattr(error, "errors", [first])
    if error.hint:
        problem["hint"] = error.hint
    return {**problem, "exit_code": exit_code(error)}


def main(args: list[str] | None = None) -> Any:
    """Runs one verb and exits with its code."""
    try:
        cli.main(args=args, prog_name="mutirao", standalone_mode=True)
    except BrokenPipeError:
        # The reader (head, less) is gone; Python must not complain about it while flushing at exit.
        sys.stdout = None
        sys.exit(1)
    except OSError as error:
        report(explain(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
