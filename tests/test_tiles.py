"""The compiled passes over a batch give the bits of their plain twins: normalise, put on the grid, then use."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from generators_intake import GAMBLING
from generators_study import people, studies
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import CASES, UNIT_BALL

from truthful import kernels
from truthful.check import Floats
from truthful.intake import Checked, Intake
from truthful.intake.tiles import Tiles
from truthful.moments import GRID, Tally, group_moments
from truthful.study import Study


def checked(study: Study, rows: list[dict[str, Any]], rng: np.random.Generator) -> Checked:
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
    columns[study.response.name] = rng.uniform(study.response.low, study.response.high, len(rows))
    batch = pa.record_batch({"player": [str(i) for i in range(len(rows))], **columns})
    return Intake(study, "clip").check(batch, 1)


def halves_of(study: Study, values: dict[str, Any], groups: Any) -> Any:
    tally = Tally(study.dimension)
    assert Tiles(study).add(values, groups, tally)
    return tally.halves


def peers_of(rng: np.random.Generator, d: int, isotropic: bool) -> kernels.Peers:
    spreads = np.zeros((0, d, d)) if isotropic else rng.normal(size=(2, d, d))
    scales = np.array([(0.1, 0.01, 0.5), (0.2, 0.02, 0.6)])
    return kernels.Peers(rng.normal(size=(2, d)), spreads, scales, 0.5)


def plain_predictions(kx: Floats, groups: Any, peers: kernels.Peers) -> Any:
    """One player at a time, in Python."""
    thetas, spreads, scales, reach = peers
    found = []
    for k, group in zip(kx, groups.tolist(), strict=True):
        x, peer = k / GRID, 1 - group
        r = math.sqrt(sum(v * v for v in x.tolist()))
        p = sum(v * t for v, t in zip(x.tolist(), thetas[peer].tolist(), strict=True))
        stretch = 0.0 if not len(spreads) else float(np.linalg.norm(x @ spreads[peer]))
        scale, low, high = scales[peer]
        along = high if not len(spreads) else min(max(scale * stretch / (r or 1.0), low), high)
        found.append((r, min(max(p, -reach * r), reach * r), along))
    return np.array(found).T


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_tiles_give_the_bits_of_their_plain_twins(data: st.DataObject) -> None:
    study = data.draw(studies())
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    batch = checked(study, data.draw(people(study)), rng)
    groups = rng.integers(0, 2, len(batch.players)).astype(np.uint8)
    kx, ky = batch.on_grid()
    assert halves_of(study, batch.values, groups) == group_moments(kx, ky, groups)
    for isotropic in (True, False):
        peers = peers_of(rng, study.dimension, isotropic)
        seen = Tiles(study).predictions(batch.values, groups, peers)
        assert seen is not None
        r, y, p, noise = seen
        np.testing.assert_array_equal(y, ky / GRID)
        np.testing.assert_allclose(
            (r, p, noise), plain_predictions(kx, groups, peers), rtol=1e-13, atol=1e-300
        )
        out = np.empty((3, len(groups)))
        kernels.peer_predictions(np.ascontiguousarray(kx.T), 1 / GRID, groups, peers, *out)
        np.testing.assert_array_equal(out, (r, p, noise))


@pytest.mark.parametrize("case", sorted(CASES))
def test_nobody_s_numbers_depend_on_the_tile_she_is_in(case: str) -> None:
    study = Study.parse(CASES[case][0])
    rng, n = np.random.default_rng(3), 5_000
    values = {
        feature.name: rng.integers(0, len(feature.levels), n)
        if feature.levels
        else rng.uniform(feature.low or -0.5, feature.high or 0.5, n)
        for feature in study.features
    }
    values[study.response.name] = rng.uniform(study.response.low, study.response.high, n)
    groups, peers = rng.integers(0, 2, n).astype(np.uint8), peers_of(rng, study.dimension, False)
    whole = Tiles(study).predictions(values, groups, peers)
    assert whole is not None
    for rows in (slice(0, 1), slice(7, 8), slice(1000, 4097), slice(4990, n)):
        part = {name: np.ascontiguousarray(column[rows]) for name, column in values.items()}
        seen = Tiles(study).predictions(part, groups[rows], peers)
        assert seen is not None
        np.testing.assert_array_equal(seen, [column[rows] for column in whole])


def test_a_vector_out_of_the_ball_is_left_to_the_careful_way() -> None:
    study = Study.parse(UNIT_BALL)
    values = {"x1": np.array([0.1, 1.0]), "x2": np.array([0.1, 2e-4]), "y": np.zeros(2)}
    groups, tally = np.zeros(2, dtype=np.uint8), Tally(study.dimension)
    assert not Tiles(study).add(values, groups, tally)
    assert tally.halves[0].count == 0
    assert (
        Tiles(study).predictions(values, groups, peers_of(np.random.default_rng(0), study.dimension, True))
        is None
    )


def a_value_changed(values: dict[str, Any], name: str, value: float) -> dict[str, Any]:
    """The values with one of the last row's changed."""
    return values | {name: np.append(values[name][:-1], values[name].dtype.type(value))}


def taken(study: Study, values: dict[str, Any]) -> bool:
    """Whether both passes use the values; a batch that one of them does not is not added at all."""
    rows = len(values[study.response.name])
    groups, tally = np.ones(rows, dtype=np.uint8), Tally(study.dimension)
    added = Tiles(study).add(values, groups, tally)
    seen = Tiles(study).predictions(values, groups, peers_of(np.random.default_rng(0), study.dimension, True))
    assert added == (seen is not None)
    assert tally.halves[1].count == rows * added
    return added


def test_what_is_out_of_its_range_is_left_to_the_rules_and_what_is_at_its_ends_is_not() -> None:
    n = kernels.TILE + 3  # the last row is in a tile of few
    values = {
        "age": np.full(n, 30.0),
        "region": np.zeros(n, dtype=np.int64),
        "weekly_spend": np.full(n, 10.0),
    }
    inside = [("age", 18), ("age", 90), ("weekly_spend", 0), ("weekly_spend", 200), ("region", 2)]
    outside = [
        ("age", np.nextafter(18, 0)),
        ("age", np.nextafter(90, 91)),
        ("age", math.nan),
        ("age", -math.inf),
    ]
    outside += [("weekly_spend", -5e-324), ("weekly_spend", math.nan), ("weekly_spend", math.inf)]
    outside += [("region", -1), ("region", 3)]
    assert all(taken(GAMBLING, a_value_changed(values, *change)) for change in inside)
    assert not any(taken(GAMBLING, a_value_changed(values, *change)) for change in outside)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_features_as_they_are_must_be_numbers(value: float) -> None:
    study = Study.parse(UNIT_BALL)
    values = {"x1": np.array([0.1, 0.2]), "x2": np.array([0.1, 0.3]), "y": np.zeros(2)}
    assert taken(study, values)
    assert not taken(study, a_value_changed(values, "x1", value))
