"""What was measured, each figure beside the floor of its own run; medians over several runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

COMMIT_MS = "commit_ms"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: its name, and which floor it is held against."""

    name: str
    title: str
    unit: str
    floor: str

    @property
    def is_rate(self) -> bool:
        """True where more is better."""
        return self.unit == "/s"


FIGURES = (
    Figure("throughput", "no-op jobs executed, backlog", "/s", "three_passes"),
    Figure("submit_store", "submission, batches into the store", "/s", "copy"),
    Figure("submit_batch", "submission, batches over HTTP", "/s", "copy"),
    Figure("submit_single", "submission, single POST over HTTP", "/s", "commits_4"),
    Figure("idle_claim_p50", "idle latency to the claim, p50", "ms", COMMIT_MS),
    Figure("idle_claim_p99", "idle latency to the claim, p99", "ms", COMMIT_MS),
    Figure("idle_start_p50", "idle latency to the handler, p50", "ms", COMMIT_MS),
    Figure("idle_start_p99", "idle latency to the handler, p99", "ms", COMMIT_MS),
)

FLOORS = {
    "copy": ("COPY of rows shaped like jobs", "/s"),
    "three_passes": ("three passes over rows shaped like jobs, batches of 500", "/s"),
    "copy_narrow": ("COPY of rows of three columns", "/s"),
    "three_passes_narrow": ("three passes over rows of three columns", "/s"),
    "commits_1": ("one-row commits, one connection", "/s"),
    "commits_4": ("one-row commits, four connections", "/s"),
    COMMIT_MS: ("one commit, one connection", "ms"),
    "redis_set": ("Redis, pipelined SET", "/s"),
}


@dataclass(frozen=True, slots=True)
class Run:
    """The figures of one run, and the floors of the same run."""

    values: dict[str, float]
    rates: dict[str, float]

    @property
    def floors(self) -> dict[str, float]:
        """Every floor by its name in FLOORS."""
        return {**self.rates, COMMIT_MS: 1000 / self.rates["commits_1"]}

    def ratio(self, figure: Figure) -> float:
        """How much of the floor's speed is reached; 0 for a claim made before the answer arrived."""
        value, floor = self.values[figure.name], self.floors[figure.floor]
        if figure.is_rate:
            return value / floor
        return floor / value if value > 0 else 0.0


def summary(runs: Sequence[Run]) -> dict[str, object]:
    """The medians, each with its floor and the median of the ratios within one run, and every single run."""
    return {
        "figures": {one.name: _described(one, runs) for one in FIGURES},
        "floors": {name: _floor(name, runs) for name in FLOORS},
        "runs": [
            {"values": _rounded(run.values), "floors": _rounded(run.floors),
             "ratios": _rounded({one.name: run.ratio(one) for one in FIGURES})}
            for run in runs
        ],
    }  # fmt: skip


def rows(runs: Sequence[Run]) -> list[tuple[str, str, str, str, str]]:
    """Rows for people: figure, median, its floor, what that is, and the ratio."""
    held = {one.floor for one in FIGURES}
    return [
        *(_figure_row(one, runs) for one in FIGURES),
        *(_floor_row(name, runs) for name in FLOORS if name not in held),
    ]


def shown(value: float, unit: str) -> str:
    """A figure with its unit: 12,345 /s or 1.23 ms."""
    return f"{value:,.2f} {unit}" if unit == "ms" else f"{value:,.0f} {unit}"


def _figure_row(figure: Figure, runs: Sequence[Run]) -> tuple[str, str, str, str, str]:
    value = _median(runs, lambda run: run.values[figure.name])
    floor = _median(runs, lambda run: run.floors[figure.floor])
    ratio = _median(runs, lambda run: run.ratio(figure))
    unit = figure.unit
    return figure.title, shown(value, unit), shown(floor, unit), FLOORS[figure.floor][0], f"{ratio:.3f}"


def _floor_row(name: str, runs: Sequence[Run]) -> tuple[str, str, str, str, str]:
    title, unit = FLOORS[name]
    return title, "", shown(_median(runs, lambda run: run.floors[name]), unit), "", ""


def _described(figure: Figure, runs: Sequence[Run]) -> dict[str, object]:
    return {
        "title": figure.title,
        "unit": figure.unit,
        "median": _round(_median(runs, lambda run: run.values[figure.name])),
        "floor": _round(_median(runs, lambda run: run.floors[figure.floor])),
        "floor_is": figure.floor,
        "ratio": _round(_median(runs, lambda run: run.ratio(figure))),
    }


def _floor(name: str, runs: Sequence[Run]) -> dict[str, object]:
    title, unit = FLOORS[name]
    return {"title": title, "unit": unit, "median": _round(_median(runs, lambda run: run.floors[name]))}


def _median(runs: Iterable[Run], of: Callable[[Run], float]) -> float:
    return statistics.median(of(run) for run in runs)


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: _round(value) for name, value in values.items()}


def _round(value: float) -> float:
    return float(f"{value:.4g}") if abs(value) < 1000 else round(value)
