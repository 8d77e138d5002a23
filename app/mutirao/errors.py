"""One error tree: whatever Mutirão raises on purpose derives from MutiraoError."""

from __future__ import annotations


class MutiraoError(Exception):
    """Base of every error raised on purpose; `code` is stable, `hint` says what to do."""

    code = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InvalidInput(MutiraoError):
    """The caller's input is wrong; `field` is the path to what is (`jobs.3.payload.path`)."""

    code = "invalid_input"

    def __init__(self, field: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.field = field


class SettingsError(MutiraoError):
    """A setting is missing, unknown or out of range."""

    code = "invalid_settings"


class ContractError(MutiraoError):
    """A handler's declaration or a payload breaks the typed contract; never worth a retry."""

    code = "contract_violated"


class NotFound(MutiraoError):
    """The named thing does not exist."""

    code = "not_found"


class Conflict(MutiraoError):
    """The thing exists in a state that rules the request out."""

    code = "conflict"


class Unavailable(MutiraoError):
    """A dependency did not answer; nothing is known to have been changed, trying again is right."""

    code = "unavailable"


class StoreUnavailable(Unavailable):
    """PostgreSQL cannot be reached or refuses to work now."""

    code = "store_unavailable"


class CoordinationUnavailable(Unavailable):
    """Redis cannot be reached, or refused or timed out."""

    code = "coordination_unavailable"


class OutcomeUnknown(StoreUnavailable):
    """A commit's answer was lost, or its wait for standbys cancelled: neither success nor failure."""

    code = "outcome_unknown"


class Fenced(MutiraoError):
    """The term row names another term or holder: this coordinator's office has ended (I3)."""

    code = "fenced"


class Superseded(MutiraoError):
    """The node row names a newer incarnation: this agent must kill its runners and exit (I2)."""

    code = "superseded"


class AlreadyRunning(MutiraoError):
    """Another live process holds this data directory, port or identity."""

    code = "already_running"
