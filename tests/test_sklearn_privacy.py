"""What one row can do to a release of the scikit-learn door, what a fitted object holds, where chance comes from."""

import pickle
import struct
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from support.oracles_sklearn import data, of_answers, of_records

import truthful.sklearn
from truthful.check import Floats
from truthful.estimators.sensitivity import Query
from truthful.lattice import SeededBits, SystemBits
from truthful.moments import grid_features, grid_responses, sums
from truthful.settlement.draw import Drawing, replay
from truthful.sklearn import PrivateRegressor, Units


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


class Replayed:
    """A drawing that gives what another one released."""

    def __init__(self, answers: list[tuple[int, ...]]) -> None:
        self.answers, self._answer = answers, replay(answers)

    def __call__(self, query: Query, epsilon: Fraction) -> Sequence[int]:
        return self._answer(query, epsilon)


# What one row can do


def moved(one: Query, other: Query) -> Fraction:
    """The squared weighted distance of two releases that share their noise, over the squared sensitivity."""
    terms = zip(one.weights, one.value, other.value, strict=True)
    return Fraction(sum(w * (k - other_k) ** 2 for w, k, other_k in terms)) / one.sensitivity**2


def neighbours(row: int, x: Sequence[float] | Floats, y: float) -> list[tuple[Floats, Floats]]:
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
    x: list[float], y: float, signal: float, drawings: list[Recorded]
) -> None:
    model = of_records(random_state=3, signal=signal)
    assert 0 < furthest(model, neighbours(5, x, y), drawings) <= 1


@pytest.mark.parametrize("y", [1e7, -1e7, 0.0])
def test_no_answer_moves_a_release_by_more_than_its_sensitivity_where_answers_are_protected(
    y: float, drawings: list[Recorded]
) -> None:
    features = data(40)[0][5]
    assert 0 < furthest(of_answers(), neighbours(5, features, y), drawings) <= 1


def test_the_sensitivity_is_reached_by_turning_a_report_round(drawings: list[Recorded]) -> None:
    X, y = data(40)
    X[5] = [1.0, 0.0, 0.0]
    up, down = (np.where(np.arange(40) == 5, report, y) for report in (1e7, -1e7))
    model = of_records(random_state=3, fit_intercept=False)
    assert furthest(model, [(X, up), (X, down)], drawings) == 1


class Peeking(PrivateRegressor):
    """Not private: its response bound is read off the data."""

    def fit(self, X: Any, y: Any) -> PrivateRegressor:
        self.response_bound = float(np.abs(y).max())
        return super().fit(X, y)


def test_a_bound_read_off_the_data_is_caught(drawings: list[Recorded]) -> None:
    assert (
        furthest(Peeking(feature_norm=1.0, random_state=3), neighbours(5, [0.1, 0.1, 0.1], 1e7), drawings) > 1
    )


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
    """Raw and normalised records; exact statistics, as sums and means; least squares."""
    units = Units(model.feature_norm or 1.0, model.response_bound or 1.0, fit_intercept=False)
    Z, reports = units.features(X), units.responses(y)
    kx, ky = grid_features(Z), grid_responses(reports, 1.0)
    total = sums(kx, ky, model.estimate_.transform)
    held = [y, reports, ky, np.linalg.lstsq(X, y)[0], np.linalg.lstsq(Z, reports)[0], total.vector]
    if model.protects == "records":
        held += [X, Z, kx, total.matrix]
    exact = [np.asarray(part, dtype=np.float64) for part in held]
    scaled = [part / 2.0**40 for part in exact] + [part / len(y) for part in exact]
    return {float(v) for array in (*exact, *scaled) for v in np.ravel(array)} - {0.0}


@pytest.mark.parametrize("model", [of_records(feature_norm=1.3, response_bound=0.9), of_answers()])
def test_no_record_and_no_exact_statistic_is_among_the_attributes_or_in_the_pickle(model: Any) -> None:
    """The bounds are wide enough to clip nothing: a clipped value is the bound itself, which is public."""
    X, y = data(60)
    fitted = clone(model).set_params(fit_intercept=False).fit(X, y)
    hidden = hidden_numbers(fitted, X, y)
    assert len(hidden) > 300
    assert hidden.isdisjoint(numbers(list(vars(fitted).values())))
    stored = pickle.dumps(fitted)
    for value in hidden:
        assert struct.pack("<d", value) not in stored
        assert struct.pack(">d", value) not in stored


def test_the_walk_and_the_pickle_would_show_a_record_that_was_kept() -> None:
    X, y = data(60)
    fitted = of_answers().fit(X, y)
    fitted.kept_ = [X[7]]
    assert X[7, 1] in set(numbers(list(vars(fitted).values())))
    assert struct.pack("<d", X[7, 1]) in pickle.dumps(fitted)


def test_without_the_payments_a_fitted_object_is_a_function_of_the_releases_alone(
    drawings: list[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other data with the same releases give the same object to the byte: nothing else of the data is in it."""
    fitted = of_records(random_state=0).fit(*data(60, seed=1))
    answers = drawings[0].answers
    monkeypatch.setattr(truthful.sklearn, "Drawing", lambda bits: Replayed(answers))
    other = of_records(random_state=0).fit(*data(60, seed=2))
    assert not np.array_equal(fitted.payments_, other.payments_)
    del fitted.payments_, other.payments_
    assert pickle.dumps(fitted) == pickle.dumps(other)
    assert np.isfinite(fitted.predict(data(5)[0])).all()


# Randomness


def test_without_a_seed_two_fits_differ_in_everything_random_and_are_no_rehearsals() -> None:
    """Equal lattice noise has probability below 1e-30."""
    one, other = (of_records().fit(*data()) for _ in range(2))
    assert (one.coef_ != other.coef_).all()
    assert one.intercept_ != other.intercept_
    assert not one.rehearsal_
    assert not other.rehearsal_


def test_without_a_seed_all_chance_comes_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the system's source replaced by a fixed one nothing is left to chance, so there is no other source."""
    system = of_records().fit(*data())
    monkeypatch.setattr(truthful.sklearn, "SystemBits", lambda: SeededBits(7))
    one, other = (of_records().fit(*data()) for _ in range(2))
    assert pickle.dumps(one) == pickle.dumps(other)
    assert (one.coef_ != system.coef_).all()


def test_noise_asks_the_system_for_every_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    class Counting(SystemBits):
        def bits(self, n: int) -> int:
            asked.append(n)
            return super().bits(n)

        def below(self, n: int) -> int:
            asked.append((n - 1).bit_length())
            return super().below(n)

    monkeypatch.setattr(truthful.sklearn, "SystemBits", Counting)
    of_records().fit(*data())
    # One estimate of 4 coefficients, from 10 + 4 noise coordinates of about 40 bits.
    assert sum(asked) > 14 * 40


def test_a_rehearsal_never_asks_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a rehearsal drew from the operating system")

    monkeypatch.setattr(truthful.sklearn, "SystemBits", refuse)
    monkeypatch.setattr("secrets.randbits", refuse)
    monkeypatch.setattr("secrets.randbelow", refuse)
    one, same = (of_records(random_state=3).fit(*data()) for _ in range(2))
    assert pickle.dumps(one) == pickle.dumps(same)
    assert one.rehearsal_


def test_a_random_state_instance_moves_on_from_fit_to_fit() -> None:
    state = np.random.RandomState(0)
    one, other = (of_records(random_state=state).fit(*data()) for _ in range(2))
    assert (one.coef_ != other.coef_).all()
    assert one.rehearsal_
