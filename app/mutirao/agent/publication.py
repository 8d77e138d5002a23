"""How a node's contracts are laid down in PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec

from mutirao.binding import Contract
from mutirao.store.nodes import PublishedContract


def published(contracts: Iterable[Contract]) -> list[PublishedContract]:
    """The contracts as rows: schemas and defaults as JSON text."""
    return [
        PublishedContract(
            contract.handler,
            contract.fingerprint,
            contract.description,
            json.dumps(contract.payload_schema),
            json.dumps(contract.result_schema),
            msgspec.json.encode(contract.defaults).decode(),
        )
        for contract in contracts
    ]
