"""The page of what a budget buys: its tables are those of this version, and its sentences hold in them."""

import importlib
import math
from types import ModuleType

import pages
import pytest

from truthful.plan import Plan
from truthful.planner import Infeasible


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(pages.ROOT / "benchmarks"))
    return importlib.import_module("planner")


def table(name: str) -> list[list[str]]:
    """The rows of a table of the page, without its head."""
    text = pages.read("docs/budgets.md")
    between = text.split(f"<!-- {name} -->\n")[1].split(f"<!-- end of {name} -->")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in between.splitlines()[2:]]


def mean(cell: str) -> float:
    """Of `0.1 ± 0.02`, 0.1; nothing is as good as infinite."""
    try:
        return float(cell.split("±")[0].replace(",", ""))
    except ValueError:
        return math.inf


PANELS = {
    (int(row[0].replace(",", "")), int(row[1])): (mean(row[2]), mean(row[4]), mean(row[6]), mean(row[7]))
    for row in table("panels")
}


@pytest.mark.slow
def test_the_first_table_is_that_of_this_version_and_reaches_what_is_required(benchmark: ModuleType) -> None:
    rows = {(row[0].strip("`"), int(row[1])): [mean(cell) for cell in row[2:]] for row in table("asked")}
    assert rows.keys() == benchmark.REQUIRED.keys()
    for (payments, d), (guaranteed, required, truthful, lied, theirs, their_error, ratio) in rows.items():
        study = benchmark.ball(d)
        plan = benchmark.planned(study, benchmark.PLAYERS, benchmark.BUDGET, payments)
        assert guaranteed == pytest.approx(plan.guarantees.accuracy.mean_squared_error, rel=6e-3)
        assert theirs == pytest.approx(
            benchmark.paper(study, benchmark.PLAYERS, benchmark.BUDGET).error, rel=6e-3
        )
        assert guaranteed <= required == benchmark.REQUIRED[payments, d]
        assert guaranteed / 2 < min(truthful, lied)
        assert max(truthful, lied) < guaranteed
        assert ratio == pytest.approx(theirs / guaranteed, rel=1e-2)
        assert ratio > 100
        assert their_error > theirs / 1.5
    for payments in ("expected", "never-negative"):
        ratios = [rows[payments, d][-1] for d in (2, 5, 10)]
        assert ratios == sorted(ratios)


@pytest.mark.slow
@pytest.mark.parametrize(("players", "d"), [(2000, 5), (20_000, 20), (2_000_000, 2)])
def test_panels_are_those_of_this_version(benchmark: ModuleType, players: int, d: int) -> None:
    for payments, shown in zip(("expected", "never-negative"), PANELS[players, d][:2], strict=True):
        plan = benchmark.planned(benchmark.ball(d), players, benchmark.EACH * players, payments)
        error = plan.guarantees.accuracy.mean_squared_error if isinstance(plan, Plan) else math.inf
        assert shown == pytest.approx(error, rel=6e-3)


def test_more_players_and_fewer_coefficients_help_more_than_in_proportion() -> None:
    for (players, d), (*ours, _, _) in PANELS.items():
        for more, fewer in zip(PANELS.get((10 * players, d), (0, 0))[:2], ours, strict=True):
            assert more < fewer / 10 or math.isinf(fewer)
        for wider, narrower in zip(PANELS.get((players, 2 * d), (math.inf, math.inf))[:2], ours, strict=True):
            assert wider > 2 * narrower or math.isinf(narrower)
        assert all(error < PANELS[players, d][3] or math.isinf(error) for error in ours)


def test_the_paper_needs_far_larger_panels_to_beat_the_prior_mean() -> None:
    for d in {d for _, d in PANELS}:
        ours, theirs = (
            min(n for (n, k), row in PANELS.items() if k == d and row[which] < row[3]) for which in (1, 2)
        )
        assert theirs >= 10 * ours


@pytest.mark.slow
def test_observed_features_need_panels_many_times_larger(benchmark: ModuleType) -> None:
    seen = {(int(row[0].replace(",", "")), int(row[1])): mean(row[3]) for row in table("noisy")}
    for (players, d), error in seen.items():
        assert error > 5 * PANELS[players, d][1] or math.isinf(error)
    assert isinstance(benchmark.planned(benchmark.observed(2), 20_000, 5000.0, "never-negative"), Infeasible)
    plan = benchmark.planned(benchmark.observed(5), 2_000_000, 500_000.0, "never-negative")
    assert seen[2_000_000, 5] == pytest.approx(plan.guarantees.accuracy.mean_squared_error, rel=6e-3)
