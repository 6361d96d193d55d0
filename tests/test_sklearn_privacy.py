"""What one row can do to a release of the scikit-learn door, what a fitted object holds, where chance comes from."""

import pickle
import struct
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from oracles_sklearn import data, ridge
from sklearn.base import clone

import truthful.sklearn
from truthful.check import Floats
from truthful.estimators import Query, RidgeBall
from truthful.lattice import SeededBits, SystemBits
from truthful.moments import grid_features, grid_responses, group_moments
from truthful.settlement.draw import Drawing, replay
from truthful.sklearn import PrivateRegressor, Units, random_halves


@pytest.fixture
def drawings(monkeypatch: pytest.MonkeyPatch) -> list["Recorded"]:
    """Every release made during the test, in order."""
    made: list[Recorded] = []

    def recorded(bits: Any) -> Recorded:
        made.append(Recorded(bits))
        return made[-1]

    monkeypatch.setattr(truthful.sklearn, "Drawing", recorded)
    return made


class Recorded(Drawing):
    """A drawing that also keeps the queries."""

    def __init__(self, bits: Any) -> None:
        super().__init__(bits)
        self.queries: list[Query] = []

    def __call__(self, query: Query, epsilon: Fraction) -> Sequence[int]:
        self.queries.append(query)
        return super().__call__(query, epsilon)


# What one row can do


def moved(one: Query, other: Query) -> Fraction:
    """The squared weighted distance of two releases that share their noise, over the squared sensitivity."""
    terms = zip(one.weights, one.value, other.value, strict=True)
    return Fraction(sum(w * (k - other_k) ** 2 for w, k, other_k in terms)) / one.sensitivity**2


def neighbours(row: int, x: Sequence[float], y: float) -> list[tuple[Floats, Floats]]:
    """The same data with another record in one row."""
    X, responses = data(40)
    other_X, other_y = X.copy(), responses.copy()
    other_X[row], other_y[row] = x, y
    return [(X, responses), (other_X, other_y)]


def furthest(model: Any, pair: list[tuple[Floats, Floats]], drawings: list[Recorded]) -> Fraction:
    """The largest move of any release of a seeded model, in sensitivities, squared."""
    drawings.clear()
    for X, y in pair:
        clone(model).fit(X, y)
    one, other = drawings
    for query, twin in zip(one.queries, other.queries, strict=True):
        assert (query.sensitivity, query.unit, query.weights) == (twin.sensitivity, twin.unit, twin.weights)
    return max(moved(*pair) for pair in zip(one.queries, other.queries, strict=True))


@pytest.mark.parametrize(
    "model", [PrivateRegressor(random_state=3), ridge()], ids=["noisy-statistics", "ridge-ball"]
)
@pytest.mark.parametrize("signal", [0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([0.1, 0.1, 0.1], 1e7),
        ([1e7, -1e7, 1e7], -1e7),
        ([1.0, 0.0, 0.0], -1.0),
        ([1e308, 1e308, 1e308], -1e308),
        ([0.0, 0.0, 0.0], 0.0),
    ],
)
def test_no_record_moves_a_release_by_more_than_its_sensitivity(
    x: list[float], y: float, signal: float, model: Any, drawings: list[Recorded]
) -> None:
    changed = clone(model).set_params(signal=signal)
    assert 0 < furthest(changed, neighbours(5, x, y), drawings) <= 1


def test_the_sensitivity_is_reached_by_turning_a_report_round(drawings: list[Recorded]) -> None:
    X, y = data(40)
    X[5] = [1.0, 0.0, 0.0]
    up, down = (np.where(np.arange(40) == 5, report, y) for report in (1e7, -1e7))
    model = PrivateRegressor(random_state=3, fit_intercept=False)
    assert furthest(model, [(X, up), (X, down)], drawings) == 1


class Peeking(PrivateRegressor):
    """Not private: its response bound is read off the data."""

    def fit(self, X: Any, y: Any) -> PrivateRegressor:
        self.response_bound = float(np.abs(y).max())
        return super().fit(X, y)


def test_a_bound_read_off_the_data_is_caught(drawings: list[Recorded]) -> None:
    assert furthest(Peeking(random_state=3), neighbours(5, [0.1, 0.1, 0.1], 1e7), drawings) > 1


def test_one_report_of_ten_million_moves_the_coefficients_by_no_more_than_their_sensitivity() -> None:
    one, other = (ridge(fit_intercept=False).fit(X, y) for X, y in neighbours(5, [1.0, 0.0, 0.0], 1e7))
    limit = RidgeBall(3, gamma=5.0, radius=0.5, response_bound=1.0).sensitivity(40)
    assert 0 < np.linalg.norm(one.coef_ - other.coef_) <= limit


# What a fitted object holds


def numbers(value: Any) -> Iterator[float]:
    """Every number reachable from a value."""
    if isinstance(value, np.ndarray):
        yield from numbers(value.ravel().tolist())
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from numbers(part)
    elif is_dataclass(value):
        for each in fields(value):
            yield from numbers(getattr(value, each.name))
    elif isinstance(value, (int, float)):
        yield float(value)
    else:
        assert value is None or isinstance(value, str), f"{value!r} was not walked"


def hidden_numbers(model: PrivateRegressor, X: Floats, y: Floats) -> set[float]:
    """Raw and normalised records; exact statistics of everybody and of each half, as sums and means; least squares."""
    units = Units(model.feature_norm, model.response_bound, fit_intercept=False)
    Z, reports = units.features(X), units.responses(y)
    kx, ky = grid_features(Z), grid_responses(reports, 1.0)
    halves = group_moments(kx, ky, model.groups_)
    held = [X, y, Z, reports, kx, ky, np.linalg.lstsq(X, y)[0], np.linalg.lstsq(Z, reports)[0]]
    for half in (*halves, halves[0] + halves[1]):
        for sums in (
            half.gram,
            half.cross,
            half.square,
            half.gram_float,
            half.cross_float,
            half.square_float,
        ):
            held += [np.asarray(sums, dtype=np.float64), np.asarray(sums, dtype=np.float64) / half.count]
    return {float(v) for array in held for v in np.ravel(array)}


@pytest.mark.parametrize("model", [PrivateRegressor(feature_norm=1.3, response_bound=0.9), ridge()])
def test_no_record_and_no_exact_statistic_is_among_the_attributes_or_in_the_pickle(model: Any) -> None:
    """The bounds are wide enough to clip nothing: a clipped value is the bound itself, which is public."""
    X, y = data(60)
    fitted = clone(model).set_params(fit_intercept=False).fit(X, y)
    hidden = hidden_numbers(fitted, X, y)
    assert len(hidden) > 500
    assert hidden.isdisjoint(numbers(list(vars(fitted).values())))
    stored = pickle.dumps(fitted)
    for value in hidden:
        assert struct.pack("<d", value) not in stored
        assert struct.pack(">d", value) not in stored


def test_the_walk_and_the_pickle_would_show_a_record_that_was_kept() -> None:
    X, y = data(60)
    fitted = ridge().fit(X, y)
    fitted.kept_ = [X[7]]
    assert X[7, 1] in set(numbers(list(vars(fitted).values())))
    assert struct.pack("<d", X[7, 1]) in pickle.dumps(fitted)


def test_without_the_payments_a_fitted_object_is_a_function_of_the_releases_alone(
    drawings: list[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other data with the same releases give the same object to the byte: nothing else of the data is in it."""
    fitted = PrivateRegressor(random_state=0).fit(*data(60, seed=1))
    answers = drawings[0].answers
    monkeypatch.setattr(truthful.sklearn, "Drawing", lambda bits: replay(answers))
    other = PrivateRegressor(random_state=0).fit(*data(60, seed=2))
    assert not np.array_equal(fitted.payments_, other.payments_)
    del fitted.payments_, other.payments_
    assert pickle.dumps(fitted) == pickle.dumps(other)
    assert np.isfinite(fitted.predict(data(5)[0])).all()


# Randomness


def test_without_a_seed_two_fits_differ_in_everything_random_and_are_no_rehearsals() -> None:
    """Equal halves of 300 rows coincide with probability below 1e-88, equal lattice noise below 1e-30."""
    one, other = (PrivateRegressor().fit(*data()) for _ in range(2))
    assert (one.coef_ != other.coef_).all()
    assert one.intercept_ != other.intercept_
    assert not np.array_equal(one.groups_, other.groups_)
    assert not one.rehearsal_
    assert not other.rehearsal_


def test_without_a_seed_all_chance_comes_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the system's source replaced by a fixed one nothing is left to chance, so there is no other source."""
    system = PrivateRegressor().fit(*data())
    monkeypatch.setattr(truthful.sklearn, "SystemBits", lambda: SeededBits(7))
    one, other = (PrivateRegressor().fit(*data()) for _ in range(2))
    assert pickle.dumps(one) == pickle.dumps(other)
    assert (one.coef_ != system.coef_).all()


def test_noise_and_halves_ask_the_system_for_every_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    class Counting(SystemBits):
        def bits(self, n: int) -> int:
            asked.append(n)
            return super().bits(n)

        def below(self, n: int) -> int:
            asked.append((n - 1).bit_length())
            return super().below(n)

    monkeypatch.setattr(truthful.sklearn, "SystemBits", Counting)
    PrivateRegressor().fit(*data())
    assert asked[0] == 128  # the key of the halves
    # Three estimates of 4 coefficients, each from 10 + 4 noise coordinates of about 40 bits.
    assert sum(asked) > 3 * 14 * 40


def test_a_rehearsal_never_asks_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a rehearsal drew from the operating system")

    monkeypatch.setattr(truthful.sklearn, "SystemBits", refuse)
    monkeypatch.setattr("secrets.randbits", refuse)
    monkeypatch.setattr("secrets.randbelow", refuse)
    one, same = (PrivateRegressor(random_state=3).fit(*data()) for _ in range(2))
    assert pickle.dumps(one) == pickle.dumps(same)
    assert one.rehearsal_


def test_a_random_state_instance_moves_on_from_fit_to_fit() -> None:
    state = np.random.RandomState(0)
    one, other = (PrivateRegressor(random_state=state).fit(*data()) for _ in range(2))
    assert (one.coef_ != other.coef_).all()
    assert one.rehearsal_


@pytest.mark.parametrize("players", [2, 3, 10, 501])
def test_halves_are_equal_and_every_player_is_in_each_half_half_the_time(players: int) -> None:
    """4,000 draws. Each mean has sd ≤ 0.008: six of them away has probability below 1e-8, 501 times."""
    drawn = np.array([random_halves(players, SeededBits(seed)) for seed in range(4_000)])
    assert set(np.unique(drawn.sum(axis=1))) == {players // 2}
    assert abs(drawn.mean(axis=0) - (players // 2) / players).max() < 0.048


def test_all_pairs_of_four_players_are_equally_often_a_half() -> None:
    """6 halves, 6,000 draws: each count has sd 29; 175 away is six of them, probability below 1e-7."""
    codes = [int(random_halves(4, SeededBits(seed)) @ [8, 4, 2, 1]) for seed in range(6_000)]
    _, counts = np.unique(codes, return_counts=True)
    assert len(counts) == 6
    assert abs(counts - 1_000).max() < 175
