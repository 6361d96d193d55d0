"""Features that contradict the declared design are refused before anything is drawn, and the column is named."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.studies import DESIGNED, RECORDS, UNIT_BALL, people, planned, saved_study

from truthful.errors import InputError, Refused, WorseThanPromised
from truthful.intake.intake import LevelCounts
from truthful.moments import grid_features, sums
from truthful.settlement import settle
from truthful.settlement.checks import Difference, design_difference
from truthful.study import Study

N = 2000
THIRDS = [667, 666, 667]
KNOWN = DESIGNED + RECORDS
MATRIX = [[0.25, 0, 0, 0], [0, 0.08, 0, 0], [0, 0, 0.17, 0.08], [0, 0, 0.08, 0.17]]
COVARIANCE = KNOWN.replace('kind = "uniform"', f'kind = "covariance"\nmatrix = {MATRIX}')


def reports(study: Study, **columns: object) -> pa.Table:
    """Invented people, some of whose features are these instead."""
    table = people(study, N).reports
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    return table


def ladder() -> np.ndarray:
    """Prices that are spread as they should be, one after the other."""
    return 1 + 4 * (np.arange(N) + 0.5) / N


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            {"price": 1 + 4 * np.linspace(0, 1, N) ** 0.25},
            "'price' has mean 4.20 and standard deviation 0.656, not 3.00 and 1.1",
        ),
        ({"price": np.full(N, 4.5)}, "'price' is 4.50 for everybody"),
        (
            {"price": 3 + np.tile([-0.1, 0.1], N // 2)},
            r"'price' has mean 3.00 and standard deviation 0.100, not 3.00 and 1.1",
        ),
        (
            {"region": ["north"] * (N // 2) + ["south", "east"] * (N // 4)},
            "50.0% of them have region = 'north', not 33.3%",
        ),
        (
            {"price": ladder(), "region": np.repeat(["north", "south", "east"], THIRDS)},
            "'price' and 'region' go together: the mean product of their codes is -0.4",
        ),
    ],
)
@pytest.mark.parametrize("text", [KNOWN, COVARIANCE])
def test_an_estimate_that_rests_on_a_design_is_refused_where_features_contradict_it(
    text: str, columns: dict[str, object], words: str, tmp_path: Path
) -> None:
    study = saved_study(tmp_path, text)
    plan, table = planned(study, N), reports(Study.parse(DESIGNED), **columns)
    assert plan.mechanism.estimator == "known-design"
    with pytest.raises(Refused, match=f"contradict the declared design, '{study.design.kind}': {words}"):
        settle(plan, table, out=tmp_path / "out", accept_less=True)
    assert {path.name for path in tmp_path.iterdir()} == {"study.toml", ".ledger.lock"}


def test_features_of_the_unit_ball_are_checked_too() -> None:
    study = Study.parse(UNIT_BALL + RECORDS)
    plan, table = planned(study, N), people(study, N).reports
    settle(plan, table, seed=1)
    small = table.set_column(1, "x1", pa.array(table.column("x1").to_numpy() / 4))
    with pytest.raises(Refused, match=r"'x1' has the root mean square 0.12\d, not 0.500"):
        settle(plan, small, seed=1)


def test_an_estimate_from_the_features_themselves_needs_no_design_and_a_broken_promise_names_the_column() -> (
    None
):
    study = Study.parse(DESIGNED)
    plan, skewed = planned(study, N), 3 + np.linspace(0, 1, N)
    with pytest.raises(
        WorseThanPromised,
        match=r"features differ most here: 'price' has mean 3.50 and standard deviation 0.289, not 3.00 and 1.15\. ",
    ):
        settle(plan, reports(study, price=skewed), seed=1)
    settle(plan, reports(study, price=skewed), seed=1, accept_less=True)
    with pytest.raises(
        Refused,
        match=r"features are longer .* here: 'price' has mean 4.20 .* Nothing was drawn. Plan again",
    ):
        settle(plan, reports(study, price=1 + 4 * np.linspace(0, 1, N) ** 0.25), seed=1)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"price": np.full(N, 4.5)}, "'price' is constant among them, or follows from others"),
        ({"region": ["north", "south"] * (N // 2)}, "'region' is constant among them"),
        (
            {
                "price": np.repeat([1.0, 5.0, 3.0], THIRDS),
                "region": np.repeat(["north", "south", "east"], THIRDS),
            },
            "'price' and 'region' are constant among them, or follow from each other",
        ),
    ],
)
def test_features_that_cannot_be_told_apart_are_named(columns: dict[str, object], words: str) -> None:
    study = Study.parse(DESIGNED)
    with pytest.raises(InputError, match=words):
        settle(planned(study, N), reports(study, **columns), seed=1, accept_less=True)


def difference(study: Study, players: int, seed: int) -> Difference:
    x = grid_features(study.normalise(study.sample_features(np.random.default_rng(seed), players)))
    cells = LevelCounts.zero(study)
    for counts in cells.levels.values():
        counts += 1
    found = design_difference(study, sums(x, np.zeros(players), None), cells)
    assert found is not None
    return found


@pytest.mark.parametrize("text", [DESIGNED, UNIT_BALL])
@pytest.mark.parametrize("players", [4, 60, 5_000])
def test_people_who_follow_the_design_are_let_pass(text: str, players: int) -> None:
    """100 seeds; a false alarm in all of them together has probability 1e-4 at most."""
    study = Study.parse(text)
    sizes = [difference(study, players, seed).size for seed in range(100)]
    assert max(sizes) <= 1
    if players > 4:
        assert max(sizes) > 0.1  # and not because anything would pass


def test_without_features_there_is_nothing_to_contradict() -> None:
    text = DESIGNED[: DESIGNED.index("[[features]]")] + DESIGNED[DESIGNED.index("[design]") :]
    study = Study.parse(text)
    assert design_difference(study, sums(np.ones((3, 1)), np.zeros(3), None), LevelCounts.zero(study)) is None


def test_features_that_interact_and_go_together_are_named() -> None:
    """Prices rise from region to region, so that the product of both has another mean than is declared."""
    study = Study.parse(f'interactions = [["price", "region"]]\n{KNOWN}')
    table = reports(study, price=ladder(), region=np.repeat(["north", "south", "east"], THIRDS))
    kx = grid_features(
        study.normalise({n: table[n].to_numpy(zero_copy_only=False) for n in ("price", "region")})
    )
    found = design_difference(study, sums(kx, np.zeros(N), None), LevelCounts.zero(study))
    assert found is not None
    assert found.size > 1
    assert found.words.startswith("'price' and 'region' go together")
