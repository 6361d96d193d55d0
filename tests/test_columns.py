from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracles_intake as oracle
from support.generators_intake import (
    BAD,
    GOOD,
    TEXTS,
    refused,
    table_of,
    take_in,
)

from truthful.errors import InputError
from truthful.intake.rules import BadReports
from truthful.study import Study


@given(value=TEXTS | st.text(max_size=4) | st.floats().map(str) | st.text("0123456789.eE+-_ ", max_size=6))
def test_what_a_text_means_does_not_depend_on_its_neighbours(value: str) -> None:
    def kinds(ages: list[str]) -> list[Any]:
        rows = [
            {"player": str(i), "age": age, "region": "east", "weekly_spend": "1"}
            for i, age in enumerate(ages)
        ]
        try:
            batches, _ = take_in(table_of(rows))
        except BadReports as error:
            return [(bad.kind, bad.sentence) for bad in error.records if bad.player == "0"]
        return [batches[0].records["age"][0].as_py()]

    alone, beside = kinds([value]), kinds([value, "no number"])
    assert alone == beside or beside == []
    assert (beside == []) == (oracle.in_range(value, 18, 90) is None)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([20, 30], pa.int8()),
        pa.array([20, 30], pa.uint64()),
        pa.array([20.0, 30.0], pa.float32()),
        pa.array(["20.00", "30"]).cast(pa.decimal128(6, 2)),
        pa.array(["20", "30.0"], pa.large_string()),
        pa.array(["20", "30"]).dictionary_encode(),
        pa.array([20, 30]).dictionary_encode(),
    ],
)
def test_numbers_of_any_type_are_numbers(column: Any) -> None:
    table = GOOD.slice(0, 2).set_column(1, "age", column)
    assert take_in(table)[0][0].records["age"].to_pylist() == [20.0, 30.0]


def test_truth_values_are_the_numbers_0_and_1() -> None:
    table = GOOD.slice(0, 2).set_column(3, "weekly_spend", pa.array([True, False]))
    assert take_in(table)[0][0].records["weekly_spend"].to_pylist() == [1.0, 0.0]


@pytest.mark.parametrize(
    "column",
    [pa.array([1, 2]), pa.array([1.0, 2.0]), pa.array(["1", "2"]), pa.array(["1", "2"]).dictionary_encode()],
)
def test_levels_may_be_whole_numbers(column: Any) -> None:
    text = """
    name = "Levels"
    currency = "USD"
    response = { name = "y", low = 0, high = 1 }
    features = [{ name = "f", levels = [2, 1] }]
    design = { kind = "observed" }
    beliefs = { signal = 0.5 }
    costs = { kind = "pareto", tail = 2.0, scale = 0.05 }
    """
    study = Study.parse(text)
    (batch,), _ = take_in(pa.table({"player": ["a", "b"], "f": column, "y": [0, 1]}), study=study)
    assert batch.records["f"].to_pylist() == ["1", "2"]
    assert np.sign(batch.on_grid()[0][:, 1]).tolist() == [-1, 1]


@pytest.mark.parametrize("dtype", [pa.int32(), pa.uint8(), pa.float64()])
def test_whole_numbers_are_players_of_one_type(dtype: pa.DataType) -> None:
    players = take_in(GOOD.set_column(0, "player", pa.array(range(5), dtype)))[0][0].players
    assert players.type == pa.int64()
    assert players.to_pylist() == [0, 1, 2, 3, 4]


def test_a_frame_with_one_missing_number_as_player_tells_the_row() -> None:
    frame = GOOD.to_pandas().assign(player=[1, 2, None, 4, 5])
    assert str(refused(frame)).startswith(
        "In the table of reports, row 2 (rows count from 0): The player id is missing."
    )


@pytest.mark.parametrize(
    ("players", "expected"),
    [
        (pa.array([1.5, 2, 3, 4, 5]), "Player ids must be text or whole numbers"),
        (pa.array([True, False, True, False, True]), "Player ids are of type bool"),
    ],
)
def test_players_that_are_no_ids_are_refused(players: Any, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        take_in(GOOD.set_column(0, "player", players))


def test_a_column_of_nothing_is_missing_in_every_record() -> None:
    error = refused(GOOD.set_column(1, "age", pa.nulls(5)).set_column(2, "region", pa.nulls(5)))
    assert error.counts == {"missing": 10}
    error = refused(GOOD.set_column(0, "player", pa.nulls(5)))
    assert error.counts == {"without a player id": 5}


def test_pandas_missing_values_of_every_flavour_are_missing() -> None:
    frame = pd.read_csv(io.StringIO(BAD.replace('"12,5"', "12").replace("abc", "30").replace("1e400", "1")))
    sentences = [bad.sentence for bad in refused(frame).records]
    assert sentences.count("Feature 'age' of player 'p-02' is missing.") == 1
    assert sentences.count("Feature 'region' of player 'p-10' is missing.") == 1
    assert sentences.count("The player id is missing.") == 1
