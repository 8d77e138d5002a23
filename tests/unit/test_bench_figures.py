from __future__ import annotations

from typing import Any, cast

from mutirao.bench.door import batches
from mutirao.bench.figures import FIGURES, FLOORS, Run, rows, summary
from mutirao.bench.latency import percentile

BY_NAME = {figure.name: figure for figure in FIGURES}


def run(rate: float, wait: float, floor: float) -> Run:
    values = {figure.name: rate if figure.is_rate else wait for figure in FIGURES}
    return Run(values, {name: floor for name in FLOORS if name != "commit_ms"})


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert (percentile(values, 50), percentile(values, 99), percentile([7.0], 99)) == (50.0, 99.0, 7.0)


def test_batches_sum_up() -> None:
    assert (list(batches(2500, 1000)), list(batches(0, 1000))) == ([1000, 1000, 500], [])


def test_a_ratio_of_one_is_the_floor_whether_more_or_less_is_better() -> None:
    quarter = run(rate=250.0, wait=4.0, floor=1000.0)
    assert quarter.ratio(BY_NAME["throughput"]) == 0.25
    assert quarter.ratio(BY_NAME["idle_start_p50"]) == 0.25
    assert run(1.0, -0.1, 1000.0).ratio(BY_NAME["idle_claim_p50"]) == 0.0


def test_medians_of_ratios_come_from_single_runs() -> None:
    # A machine that was twice as fast in one run must not look like a better program.
    runs = [run(100, 1, 1000), run(200, 1, 2000), run(150, 1, 3000)]
    throughput = cast(dict[str, Any], summary(runs)["figures"])["throughput"]
    assert (throughput["median"], throughput["floor"], throughput["ratio"]) == (150, 2000, 0.1)


def test_people_see_every_figure_and_every_floor() -> None:
    table = rows([run(12345.6, 1.234, 1000)])
    assert table[0][:3] == ("no-op jobs executed, backlog", "12,346 /s", "1,000 /s")
    assert {title for title, _ in FLOORS.values()} == {line[3] or line[0] for line in table}
