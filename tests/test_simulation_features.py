"""Simulated people with features that were brought: as arrays, as functions, as files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from support.commands import Run
from support.laboratory import RECORDS, plan_of
from support.studies import DESIGNED, OBSERVED, UNEQUAL, UNIT_BALL, people, saved_study

from truthful.check import Floats
from truthful.errors import InputError
from truthful.intake import Intake, open_reports, read_features, report_columns
from truthful.moments import GRID
from truthful.plan import Plan, design
from truthful.simulation import simulate
from truthful.simulation.observations import name_guarantees
from truthful.simulation.population import draw_features, features_of
from truthful.study import Study

ONLY_MEAN = OBSERVED.replace(
    OBSERVED[OBSERVED.index("[[features]]") : OBSERVED.index("[design]")], ""
).replace("least_eigenvalue = 0.08", "least_eigenvalue = 1.0")
ANSWERS = OBSERVED + RECORDS.replace("records", "answers")
OBSERVED += RECORDS
PARAMETERS = {"epsilon": 2.0, "score_weight": 0.5, "absent_share": 0.01}


def reports(rows: int = 40) -> Any:
    return people(Study.parse(OBSERVED), rows).reports


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the plan of a study of observed features and a file of people, and we are in it."""
    monkeypatch.chdir(tmp_path)
    design(saved_study(tmp_path, OBSERVED), players=300, **PARAMETERS).save("plan.json")  # type: ignore[arg-type]
    pyarrow.csv.write_csv(reports().select(["price", "region"]), "people.csv")
    return tmp_path


# In Python


def test_simulated_people_are_drawn_as_the_design_says() -> None:
    """Means of 200,000 products within ±1/12: Hoeffding, off by 0.003 with probability below 1e-20 for each entry."""
    study = Study.parse(UNEQUAL)
    X = draw_features(study, np.random.default_rng(0), 200_000)
    assert study.second_moments is not None
    np.testing.assert_allclose(X.T @ X / len(X), study.second_moments, atol=0.003)


def test_observed_features_must_be_brought() -> None:
    plan = plan_of(OBSERVED)
    with pytest.raises(InputError, match=r"design.kind is 'observed'.*--features FILE.*features=X"):
        simulate(plan, runs=2)
    rows = np.random.default_rng(0).uniform(-0.5, 0.5, (50, plan.study.dimension))
    brought = simulate(plan, runs=4, features=rows)
    drawn = simulate(plan, runs=4, features=lambda rng, n: rows[rng.integers(50, size=n)])
    unnamed = {"features": {"rows": None, "sha256": None, "everybody": False}}
    assert brought.record() | unnamed == drawn.record()


def test_where_there_are_no_features_none_must_be_brought() -> None:
    for text in (ONLY_MEAN + RECORDS, ONLY_MEAN + RECORDS.replace("records", "answers")):
        assert simulate(plan_of(text), runs=2).observed.budget.largest > 0
    with pytest.raises(InputError, match="no features, so none can be brought"):
        read_features(Study.parse(ONLY_MEAN), reports())


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.zeros((5, 7)), "7 columns; 2"),
        (np.ones((5, 2)), "a row of length 1.41"),
        (np.zeros((0, 2)), "0 rows"),
        (lambda rng, n: np.zeros((n - 1, 2)), "299 rows; 300"),
    ],
)
def test_features_that_do_not_fit_are_refused(features: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        simulate(plan_of(UNIT_BALL, 300), runs=1, features=features)


def test_the_record_names_the_features_that_were_used() -> None:
    rows = read_features(Study.parse(OBSERVED), reports())
    record = simulate(plan_of(OBSERVED), runs=1, features=rows).record()
    assert record["features"] == {
        "rows": 40,
        "sha256": hashlib.sha256(rows.astype("<f8").tobytes()).hexdigest(),
        "everybody": False,
    }
    moved = simulate(plan_of(OBSERVED), runs=1, features=rows[::-1]).record()
    assert moved["features"]["sha256"] != record["features"]["sha256"]


# The plan's own roster


def rostered(players: int = 60, **parameters: Any) -> tuple[Plan, Floats]:
    """A plan for these people, and their features."""
    study = Study.parse(ANSWERS)
    rows = read_features(study, reports(players))
    return design(study, roster=rows, **{**PARAMETERS, **parameters}), rows


def test_everybody_of_the_roster_takes_part_in_every_study() -> None:
    """What is guaranteed is as in the plan, and computed again it is the same."""
    plan, rows = rostered()
    draw, brought = features_of(plan, rows)
    assert draw(np.random.default_rng(0), 60) is draw(np.random.default_rng(1), 60)
    assert (brought.rows, brought.everybody) == (60, True)
    assert len(np.unique(draw(np.random.default_rng(0), 48), axis=0)) == 48
    seen = simulate(plan, {"exaggerator": 0.1}, runs=3, features=rows)
    assert seen.guaranteed is plan.guarantees
    assert seen.guaranteed_for == seen.record()["guaranteed_for"] == "plan"
    assert "as in the plan" in name_guarantees(seen)
    others = simulate(plan, runs=3, features=rows[::-1])
    assert others.guaranteed_for == "people"
    assert "computed for those of each study, a mean over the first 3" in name_guarantees(others)
    again = simulate(plan, runs=3, features=lambda rng, n: rows[:n])
    for name in ("truthfulness", "accuracy", "participation", "budget"):
        wanted, found = plan.guarantees.record()[name], again.guaranteed.record()[name]
        assert found.pop("assumptions") == wanted.pop("assumptions")
        assert found.pop("likely", None) is wanted.pop("likely", None) is None
        for rows_of in ("shading", "numbers"):  # each a record of its own
            for k, row in enumerate(found.pop(rows_of, ())):
                found |= {f"{rows_of}.{k}.{key}": value for key, value in row.items()}
            for k, row in enumerate(wanted.pop(rows_of, ())):
                wanted |= {f"{rows_of}.{k}.{key}": value for key, value in row.items()}
        numbers = {key: value for key, value in wanted.items() if isinstance(value, float)}
        assert {key: value for key, value in found.items() if isinstance(value, float)} == pytest.approx(
            numbers, rel=1e-9
        )
        assert found.keys() == wanted.keys()
    assert again.guaranteed_gap == pytest.approx(seen.guaranteed_gap, rel=1e-9)


def test_of_a_roster_as_many_take_part_as_are_expected_to_answer() -> None:
    plan, rows = rostered(response_share=0.75)
    draw, brought = features_of(plan, rows)
    first, second = (draw(np.random.default_rng(seed), 45) for seed in (0, 1))
    assert first.shape == (45, 4)
    assert not np.array_equal(first, second)
    assert len(np.unique(first, axis=0)) == 45
    assert not brought.everybody
    seen = simulate(plan, runs=2, features=rows)
    assert [one.players for one in seen.earnings] == [45]
    assert seen.guaranteed_for == "people"


# From files


def settled_features(study: Study, table: Any) -> Floats:
    """The features that a settlement of these reports computes with."""
    with open_reports(table, report_columns(study)) as opened:
        return (
            np.concatenate(
                [b.on_grid()[0] for piece in opened.pieces() for b in Intake(study).batches(piece)]
            )
            / GRID
        )


@pytest.mark.parametrize("text", [OBSERVED, DESIGNED, UNIT_BALL])
def test_features_are_read_as_a_settlement_reads_them(text: str, tmp_path: Path) -> None:
    study = Study.parse(text)
    table = people(study, 70_000).reports  # more than one batch
    wanted, path = settled_features(study, table), tmp_path / "people.parquet"
    pyarrow.parquet.write_table(table.drop_columns(["player", study.response.name]), path)
    np.testing.assert_array_equal(read_features(study, path), wanted)
    np.testing.assert_array_equal(read_features(study, table), wanted)


def test_answers_and_players_in_a_file_of_features_are_not_looked_at() -> None:
    study, table = Study.parse(OBSERVED), reports()
    spoilt = table.set_column(0, "player", pa.nulls(40)).set_column(3, "spend", pa.array([1e9] * 40))
    np.testing.assert_array_equal(read_features(study, spoilt), read_features(study, table))


def test_bad_features_are_told_with_their_row_or_dropped_or_clipped() -> None:
    study = Study.parse(OBSERVED)
    bad = {"price": [2.0, 9.5, 3.0], "region": ["north", "east", "south"]}
    with pytest.raises(
        InputError, match=r"row 1 \(rows count from 0\): Feature 'price' of this person is 9.5, outside"
    ):
        read_features(study, bad)
    good = read_features(study, {"price": [2.0, 3.0], "region": ["north", "south"]})
    np.testing.assert_array_equal(read_features(study, bad, "drop"), good)
    moved = read_features(study, bad | {"price": [2.0, 5.0, 3.0]})
    np.testing.assert_array_equal(read_features(study, bad, "clip"), moved)


# On the command line


def test_a_file_of_features_is_simulated_as_the_library_does(there: Path, run: Run) -> None:
    printed = run("simulate", "plan.json", "--features", "people.csv", "--runs", "3", "--seed", "2", "--json")
    plan = Plan.load("plan.json")
    rows = read_features(plan.study, "people.csv")
    wanted = simulate(plan, runs=3, seed=2, features=rows).record()
    assert (printed.code, printed.err) == (0, "")
    assert json.loads(printed.out) == json.loads(json.dumps(wanted, allow_nan=False))


def test_a_declared_design_may_be_replaced_by_people(there: Path, run: Run) -> None:
    plan_of(DESIGNED, 300).save("designed.json")
    alike = run("simulate", "designed.json", "--runs", "3", "--json")
    others = run("simulate", "designed.json", "--runs", "3", "--features", "people.csv", "--json")
    assert (alike.code, others.code) == (0, 0)
    assert json.loads(alike.out)["features"] == {"rows": None, "sha256": None, "everybody": False}
    assert json.loads(others.out)["features"]["rows"] == 40
    assert json.loads(alike.out)["observed"] != json.loads(others.out)["observed"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "Bring people's features with --features FILE"),
        ("", "people.csv is empty"),
        ("price,region\n", "In people.csv there are no reports"),
        ("price\n2.0\n", "there is no column 'region'"),
        ("price,region\n2.0,west\n", "is 'west', not one of its levels"),
        ("price,region\n2.0,west\n9,west\n", "--on-bad clip"),
    ],
)
def test_what_is_wrong_with_a_file_of_features_is_told(
    content: str | None, message: str, there: Path, run: Run
) -> None:
    if content is not None:
        Path("people.csv").write_text(content)
    told = run(
        "simulate", "plan.json", "--runs", "1", *(["--features", "people.csv"] if content is not None else [])
    )
    assert (told.code, told.out) == (2, "")
    assert message in told.err
