"""Exact sums of products with instruments: the same to the bit in any order, chunking, encoding and engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.generators_intake import GAMBLING, counted

from truthful.check import Floats
from truthful.errors import InputError
from truthful.instruments import LARGEST_ENTRY
from truthful.intake import Intake, report_columns
from truthful.intake.intake import MOST_CELLS, LevelCounts
from truthful.intake.stream import open_reports
from truthful.moments import (
    BLOCK,
    GRID,
    LARGEST_RESPONSE_BOUND,
    PRODUCT,
    Sums,
    SumsTally,
    Transform,
    grid_features,
    grid_responses,
    instruments_on_grid,
    sums,
)
from truthful.noise import NORMS
from truthful.settlement.engines import Threads
from truthful.settlement.passes import Statistics, gather, measure
from truthful.study import Study

KEY = bytes(range(16))
ENTRIES = st.integers(-LARGEST_ENTRY, LARGEST_ENTRY) | st.sampled_from(
    [0, 1, -1, 1024, -1024, LARGEST_ENTRY, -LARGEST_ENTRY]
)
VALUES = st.floats(-1, 1) | st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 5e-324, 1e-300, 2.0**-20, -(2.0**-21), 1e6]
)


@st.composite
def transforms(draw: st.DrawFn, d: int) -> Transform | None:
    """None, zero, small, huge, of any rank."""
    if draw(st.integers(0, 4)) == 0:
        return None
    entries = draw(st.sampled_from([ENTRIES, st.just(0), st.integers(-300, 300)]))
    return tuple(tuple(draw(entries) for _ in range(d)) for _ in range(d))


@st.composite
def on_grid(draw: st.DrawFn) -> tuple[Floats, Floats, Transform | None]:
    d, n = draw(st.integers(1, 7)), draw(st.integers(1, 9))
    X = [[draw(VALUES) for _ in range(d)] for _ in range(n)]
    y = [draw(st.floats(-2, 2)) for _ in range(n)]
    return grid_features(X), grid_responses(y, 1.7), draw(transforms(d))


def added_up(kx: Floats, ky: Floats, kz: Floats) -> Sums:
    """The sums in Python's integers, as they are written."""
    x, y, z = (np.array([[int(v) for v in row] for row in k], dtype=object) for k in (kx, ky[:, None], kz))
    return Sums(len(ky), z.T @ x, (z.T @ y)[:, 0], x.T @ x, z.T @ z)


def rolled(n: int, d: int, seed: int = 0, bound: float = 1.0) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    return grid_features(rng.normal(size=(n, d)) * 0.5), grid_responses(rng.uniform(-bound, bound, n), bound)


def some_transform(d: int, seed: int = 1, size: int = 3000) -> Transform:
    rng = np.random.default_rng(seed)
    return tuple(tuple(int(v) for v in row) for row in rng.integers(-size, size + 1, (d, d)))


@settings(max_examples=300, deadline=None)
@given(case=on_grid())
def test_nobody_s_instruments_are_longer_than_one_and_sums_are_exact(case: Any) -> None:
    kx, ky, transform = case
    kz = instruments_on_grid(kx, transform)
    assert all(sum(int(k) ** 2 for k in row) <= PRODUCT for row in kz)
    assert sums(kx, ky, transform) == added_up(kx, ky, kz)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 10, 11])
def test_long_columns_have_the_bits_of_their_rows(d: int) -> None:
    """Longer than panels and blocks, some people shortened and some not."""
    kx, ky = rolled(3_000, d)
    for size in (150, 3000, LARGEST_ENTRY):
        transform = some_transform(d, size=size)
        kz = instruments_on_grid(kx, transform)
        np.testing.assert_array_equal(kz[1_000:1_007], instruments_on_grid(kx[1_000:1_007], transform))
        assert sums(kx, ky, transform) == added_up(kx, ky, kz)


def test_without_a_transform_instruments_are_the_features() -> None:
    kx, ky = rolled(700, 4)
    found = sums(kx, ky, None)
    assert found == added_up(kx, ky, kx)
    assert (found.matrix == found.features).all()
    assert (found.matrix == found.instruments).all()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_sums_are_the_same_in_any_order_and_chunking(data: st.DataObject) -> None:
    d = data.draw(st.integers(1, 5))
    kx, ky = rolled(1_300, d, seed=data.draw(st.integers(0, 99)))
    transform = data.draw(transforms(d))
    order = np.random.default_rng(data.draw(st.integers(0, 99))).permutation(len(ky))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(ky)), max_size=5)))
    tally, joined = SumsTally(d, transform), Sums.zero(d)
    for part in np.split(order, cuts):
        tally.add(kx[part], ky[part])
        joined = joined + sums(kx[part], ky[part], transform)
    whole = sums(kx, ky, transform)
    assert tally.sums == joined == whole
    assert whole.digest() == joined.digest()


def test_the_largest_numbers_do_not_overflow() -> None:
    """Everybody at the end of the grid, in more rows than int64 has room for."""
    d, bound = 2, float(LARGEST_RESPONSE_BOUND)
    rows = 2**63 // (GRID * int(bound * GRID)) + 5
    kx, ky = np.tile([float(GRID), 0.0], (rows, 1)), np.full(rows, bound * GRID)
    tally = SumsTally(d, None)
    for _ in range(3):
        tally.add(kx, ky)
    assert tally.sums.vector.tolist() == [3 * rows * GRID * int(bound * GRID), 0]
    assert tally.sums.matrix.tolist() == [[3 * rows * PRODUCT, 0], [0, 0]]


def test_what_is_not_on_the_grid_is_refused() -> None:
    kx, ky = rolled(5, 2)
    with pytest.raises(InputError, match="not on the grid"):
        sums(kx + 0.5, ky, None)
    with pytest.raises(InputError, match="one per player"):
        sums(kx, ky[:3], None)


def reports(n: int, seed: int = 3) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "player": [f"p{i}" for i in range(n)],
            "age": rng.uniform(18, 90, n),
            "region": rng.choice(["north", "south", "east"], n, p=[0.6, 0.3, 0.1]),
            "weekly_spend": rng.uniform(0, 200, n),
        }
    )


def statistics(source: Any, engine: Threads, on_bad: str = "error", study: Study = GAMBLING) -> Statistics:
    with open_reports(source, report_columns(study)) as opened:
        return gather(
            opened, study, some_transform(study.dimension), "l2", KEY, on_bad, engine, lambda done, rows: None
        )


def test_the_engine_and_the_pieces_change_no_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = reports(3_000)
    pyarrow.parquet.write_table(table, tmp_path / "r.parquet", row_group_size=170)
    found = [statistics(table, Threads(1))]
    for rows in (170, 700, 10**6):
        monkeypatch.setattr("truthful.intake.stream.PIECE_ROWS", rows)
        found += [statistics(tmp_path / "r.parquet", Threads(workers)) for workers in (1, 3)]
    found.append(statistics(table.slice(0, 3_000).take(pa.array(np.arange(3_000)[::-1])), Threads(2)))
    assert {one.sums.digest() for one in found} == {found[0].sums.digest()}
    assert all(one.sums == found[0].sums and counted(one.cells) == counted(found[0].cells) for one in found)
    assert found[0].players == 3_000
    (batch,) = table.combine_chunks().to_batches()
    kx, ky = Intake(GAMBLING).check(batch, 1).on_grid()
    assert found[0].sums == sums(kx, ky, some_transform(GAMBLING.dimension))


def test_records_that_are_left_out_are_left_out_of_everything() -> None:
    table = reports(40)
    bad = table.to_pylist()
    bad[7]["age"] = 17.0
    bad[11]["region"] = "west"
    bad.insert(20, dict(bad[3], weekly_spend=1.0))
    found = statistics(pa.Table.from_pylist(bad), Threads(2), "drop")
    good = [row for i, row in enumerate(table.to_pylist()) if i not in (7, 11)]
    clean = statistics(pa.Table.from_pylist(good), Threads(1))
    assert found.sums == clean.sums
    assert counted(found.cells) == counted(clean.cells)
    assert found.treated.kept == 38
    assert len(found.repeats) == 1
    with open_reports(pa.Table.from_pylist(bad), report_columns(GAMBLING)) as opened:
        parts = list(measure(opened, GAMBLING, found, Threads(2)))
    rows = np.concatenate([rows for rows, _, _ in parts])
    assert rows.tolist() == [i for i in range(41) if i not in (7, 11, 20)]
    assert [p for _, ids, _ in parts for p in ids.to_pylist()] == [row["player"] for row in good]
    kx = np.concatenate([kx for _, _, kx in parts])
    assert sums(kx, np.zeros(len(kx)), None).features.tolist() == found.sums.features.tolist()


TWO_TABLES = Study.parse(
    """
    name = "Two tables"
    currency = "USD"
    [response]
    name = "y"
    low = 0
    high = 1
    [[features]]
    name = "sex"
    levels = ["f", "m"]
    [[features]]
    name = "age"
    low = 18
    high = 90
    [[features]]
    name = "town"
    levels = ["a", "b", "c"]
    [design]
    kind = "uniform"
    [beliefs]
    signal = 0.6
    [costs]
    kind = "pareto"
    tail = 2.0
    scale = 0.05
    """
)


def test_levels_and_pairs_of_levels_are_counted() -> None:
    rng, n = np.random.default_rng(0), 500
    sex, town = rng.choice(["f", "m"], n), rng.choice(["a", "b", "c"], n)
    table = pa.table(
        {
            "player": np.arange(n),
            "sex": sex,
            "age": rng.uniform(18, 90, n),
            "town": town,
            "y": rng.uniform(0, 1, n),
        }
    )
    cells = statistics(table, Threads(2), study=TWO_TABLES).cells
    assert cells.levels["sex"].tolist() == [(sex == level).sum() for level in "fm"]
    assert cells.levels["town"].tolist() == [(town == level).sum() for level in "abc"]
    assert list(cells.pairs) == [("sex", "town")]
    pairs = [[((sex == one) & (town == other)).sum() for other in "abc"] for one in "fm"]
    assert cells.pairs["sex", "town"].tolist() == pairs
    assert counted(cells + LevelCounts.zero(TWO_TABLES)) == counted(cells)
    assert cells != LevelCounts.zero(TWO_TABLES)


def test_pairs_with_too_many_cells_are_not_counted() -> None:
    record = TWO_TABLES.declaration()
    record["features"][2]["levels"] = [f"t{i}" for i in range(MOST_CELLS // 2 + 1)]
    cells = LevelCounts.zero(Study.from_declaration(record))
    assert len(cells.levels["town"]) == MOST_CELLS // 2 + 1
    assert not cells.pairs


def test_sums_take_in_whole_blocks_and_what_is_left() -> None:
    """Rows around the ends of blocks."""
    for n in (1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 1):
        kx, ky = rolled(n, 3, seed=n)
        transform = some_transform(3)
        for norm in NORMS:
            assert sums(kx, ky, transform, norm) == added_up(kx, ky, instruments_on_grid(kx, transform, norm))
