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


def table(name: str, page: str = "docs/budgets.md") -> list[list[str]]:
    """The rows of a table of a page, without its head."""
    between = pages.read(page).split(f"<!-- {name} -->\n")[1].split(f"<!-- end of {name} -->")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in between.splitlines()[2:]]


def mean(cell: str) -> float:
    """Of `0.1 ± 0.02`, 0.1; nothing is as good as infinite."""
    try:
        return float(cell.split("±")[0].replace(",", "").rstrip("× "))
    except ValueError:
        return math.inf


def whole(cell: str) -> int:
    return int(cell.replace(",", ""))


def errors(cell: str) -> tuple[float, float]:
    """Of coefficients and of predictions; infinite where there is no plan."""
    first, _, second = cell.partition(" / ")
    return (mean(first), mean(second)) if second else (math.inf, math.inf)


#: Guaranteed errors by players and coefficients: at 0.25, 1 and 5 USD.
SURVEYS = {(whole(row[0]), int(row[1])): [errors(cell) for cell in row[2:]] for row in table("surveys")}
PANELS = {(whole(row[0]), int(row[1])): (mean(row[2]), mean(row[4]), mean(row[6])) for row in table("panels")}
RECORDS = {
    (whole(row[0]), int(row[1])): (mean(row[2]), mean(row[4]), mean(row[6])) for row in table("records")
}


@pytest.mark.slow
@pytest.mark.parametrize(("players", "d", "column", "each"), [(500, 3, 2, 5.0), (2_000, 5, 1, 1.0)])
def test_surveys_are_those_of_this_version(
    benchmark: ModuleType, players: int, d: int, column: int, each: float
) -> None:
    plan = benchmark.surveyed(players, d, each)
    found = plan.guarantees.accuracy
    assert SURVEYS[players, d][column] == pytest.approx((found.rmse, found.prediction_rmse), rel=6e-2)


def test_two_thousand_people_at_a_dollar_each_are_enough_for_five_coefficients() -> None:
    coefficients, predictions = SURVEYS[2_000, 5][1]
    assert coefficients < 0.3
    assert predictions < 0.06  # 3 % of the range, which is 2


def test_more_people_and_more_money_help_and_more_coefficients_do_not() -> None:
    for (players, d), cells in SURVEYS.items():
        paid = [predictions for _, predictions in cells[:3]]
        assert paid == sorted(paid, reverse=True)
        for more, fewer in zip(SURVEYS.get((10 * players, d), ())[:3], cells, strict=False):
            assert 3.5 < fewer[1] / more[1] < 7.5 or math.isinf(fewer[1])
        assert all(
            wider[1] >= narrower[1] for wider, narrower in zip(SURVEYS[players, 10], cells, strict=True)
        )


@pytest.mark.parametrize(("players", "d", "each"), [(500, 3, 0.25), (500, 3, 5.0), (2_000, 2, 5.0)])
def test_a_guarantee_is_little_more_than_the_error_of_truthful_people(
    benchmark: ModuleType, players: int, d: int, each: float
) -> None:
    """1.05 to 1.7 times in mean square, as the page says."""
    plan = benchmark.surveyed(players, d, each)
    exact = benchmark.truthful_error(plan, benchmark.rosters.features(players, d))
    assert 1.05 < plan.guarantees.accuracy.mean_squared_error / exact < 1.7
    assert "1.05 to 1.7 times" in pages.read("docs/budgets.md")


def test_simulated_errors_of_surveys_are_below_what_is_guaranteed() -> None:
    for row in table("checked"):
        guaranteed, truthful, lied = (mean(row[column]) for column in (4, 5, 6))
        assert guaranteed / 2 < min(truthful, lied)
        assert max(truthful, lied) < guaranteed


@pytest.mark.slow
def test_the_table_of_assigned_features_is_that_of_this_version(benchmark: ModuleType) -> None:
    rows = {(row[0].strip("`"), int(row[1])): [mean(cell) for cell in row[2:]] for row in table("asked")}
    assert len(rows) == 6
    for (payments, d), (guaranteed, truthful, lied) in rows.items():
        study = benchmark.ball(d)
        roster = benchmark.drawn(study, benchmark.PLAYERS)
        plan = benchmark.planned(study, benchmark.PLAYERS, benchmark.BUDGET, payments, roster=roster)
        assert guaranteed == pytest.approx(plan.guarantees.accuracy.mean_squared_error, rel=6e-3)
        assert guaranteed / 2 < min(truthful, lied)
        assert max(truthful, lied) < guaranteed


@pytest.mark.slow
@pytest.mark.parametrize(("players", "d"), [(2_000, 5), (20_000, 20), (200_000, 2)])
def test_panels_are_those_of_this_version(benchmark: ModuleType, players: int, d: int) -> None:
    for payments, shown in zip(("expected", "never-negative"), PANELS[players, d][:2], strict=True):
        study = benchmark.ball(d)
        roster = benchmark.drawn(study, players)
        plan = benchmark.planned(study, players, benchmark.EACH * players, payments, roster=roster)
        error = plan.guarantees.accuracy.mean_squared_error if isinstance(plan, Plan) else math.inf
        assert shown == pytest.approx(error, rel=6e-3)


def test_more_players_and_fewer_coefficients_help_more_than_in_proportion() -> None:
    for (players, d), (*ours, _) in PANELS.items():
        for more, fewer in zip(PANELS.get((10 * players, d), (0, 0))[:2], ours, strict=True):
            assert more < fewer / 10 or math.isinf(fewer)
        for wider, narrower in zip(PANELS.get((players, 2 * d), (math.inf, math.inf))[:2], ours, strict=True):
            assert wider > 2 * narrower or math.isinf(narrower)
        assert all(error < PANELS[players, d][2] or math.isinf(error) for error in ours)


@pytest.mark.slow
def test_protecting_records_costs_more_and_most_where_features_are_observed(benchmark: ModuleType) -> None:
    for (players, d), (assigned, observed, _) in RECORDS.items():
        assert assigned > PANELS[players, d][1] or math.isinf(assigned)
        assert observed > 1.5 * assigned or math.isinf(observed)
    assert isinstance(benchmark.planned(benchmark.observed(5), 20_000, 5000.0, "never-negative"), Infeasible)
    plan = benchmark.planned(benchmark.observed(5), 2_000_000, 500_000.0, "never-negative")
    assert RECORDS[2_000_000, 5][1] == pytest.approx(plan.guarantees.accuracy.mean_squared_error, rel=6e-3)


@pytest.mark.slow
def test_the_table_of_instruments_is_that_of_this_version(benchmark: ModuleType) -> None:
    assert ["|".join(row) for row in table("instruments", "docs/theory.md")] == [
        "|".join(cell.strip() for cell in line.strip("|").split("|"))
        for line in [*benchmark.instruments()][2:]
    ]
    for row in table("instruments", "docs/theory.md"):
        spherical, whitened, equal, sampling, predictions = map(mean, row[1:])
        assert equal < min(spherical, whitened)
        assert sampling < 1.2
        assert 1.02 < predictions < 1.1
