"""The scikit-learn door: its conventions, its units, its accuracy and its payments."""

import doctest
import inspect
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from support.oracles_sklearn import COEFFICIENTS, data, of_answers, of_records, recomputed

import truthful.sklearn
from truthful.check import Floats
from truthful.errors import InputError
from truthful.estimators.ridge import adaptive_ridge
from truthful.sklearn import PrivateRegressor, UndeclaredBounds, Units

# Conventions


@pytest.mark.parametrize(
    "estimator",
    [
        PrivateRegressor(),
        of_records(random_state=0),
        of_records(random_state=0, fit_intercept=False, ridge=False),
    ],
)
@pytest.mark.filterwarnings("ignore::truthful.sklearn.UndeclaredBounds")
def test_every_check_of_scikit_learn_passes(estimator: PrivateRegressor) -> None:
    """Skipped are only checks that scikit-learn cannot make: of other array libraries, and of chance."""
    results = check_estimator(estimator, on_skip=None)
    skipped = {
        result["check_name"]: str(result["exception"]) for result in results if result["status"] == "skipped"
    }
    assert {result["status"] for result in results} <= {"passed", "skipped"}
    assert len(results) - len(skipped) > 40
    for reason in skipped.values():
        assert "array_api" in reason or (estimator.random_state is None and "non deterministic" in reason)


def test_the_example_in_the_docstring_is_true() -> None:
    outcome = doctest.testmod(truthful.sklearn)
    assert outcome.attempted > 5
    assert outcome.failed == 0


def test_every_parameter_and_fitted_attribute_is_documented() -> None:
    X, y = data(20)
    lines = (inspect.getdoc(PrivateRegressor) or "").splitlines()
    names = [*PrivateRegressor().get_params(), *(n for n in vars(of_answers().fit(X, y)) if n.endswith("_"))]
    assert [name for name in names if not any(line.startswith(f"{name} : ") for line in lines)] == []


def test_a_clone_is_unfitted_and_a_refit_of_it_repeats_the_rehearsal() -> None:
    X, y = data()
    fitted = of_records(epsilon=3.0, response_bound=2.0, random_state=4).fit(X, y)
    twin = clone(fitted)
    assert twin.get_params() == fitted.get_params()
    assert not hasattr(twin, "coef_")
    twin.fit(X, y)
    assert np.array_equal(twin.coef_, fitted.coef_)
    assert np.array_equal(twin.payments_, fitted.payments_)


def test_it_works_behind_a_scaler() -> None:
    X, y = data(2_000)
    model = make_pipeline(StandardScaler(), of_records(epsilon=1e6, feature_norm=3.0, random_state=0))
    assert model.fit(X * 50 + 7, y).score(X * 50 + 7, y) > LinearRegression().fit(X, y).score(X, y) - 0.01


def test_declared_ranges_before_it_depend_on_no_data() -> None:
    """The advice of the docstring: map declared ranges to [-1, 1]."""
    X, y = data(2_000)
    low, high = np.array([18.0, 0.0, -5.0]), np.array([90.0, 200.0, 5.0])
    raw = low + (X * np.sqrt(3) + 1) / 2 * (high - low)
    to_unit = FunctionTransformer(lambda raw: 2 * (raw - low) / (high - low) - 1)
    model = make_pipeline(to_unit, of_records(epsilon=1e6, feature_norm=3**0.5, random_state=0))
    model.fit(raw, y)
    assert model[-1].coef_ == pytest.approx(COEFFICIENTS / np.sqrt(3), abs=0.02)


def test_a_grid_search_prefers_the_epsilon_with_less_noise() -> None:
    X, y = data(3_000)
    search = GridSearchCV(of_records(random_state=0), {"epsilon": np.array([0.01, 0.1, 100.0])}, cv=3)
    search.fit(X, y)
    assert search.best_params_ == {"epsilon": 100.0}
    assert len(search.best_estimator_.payments_) == 3_000


def test_feature_names_are_kept_and_compared() -> None:
    pandas = pytest.importorskip("pandas")
    X, y = data(30)
    frame = pandas.DataFrame(X, columns=["age", "income", "height"])
    model = of_records(random_state=0).fit(frame, y)
    assert list(model.feature_names_in_) == ["age", "income", "height"]
    assert np.array_equal(model.coef_, of_records(random_state=0).fit(X, y).coef_)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"age": "years"}))


def test_sparse_rows_and_weights_are_refused() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    X, y = data(30)
    with pytest.raises(TypeError, match="Sparse data was passed"):
        of_records().fit(sparse.csr_matrix(X), y)
    with pytest.raises(TypeError, match="sample_weight"):
        of_records().fit(X, y, sample_weight=np.ones(30))  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.0}, "epsilon is 0.0; it must be above 0"),
        ({"epsilon": float("nan")}, "epsilon is nan"),
        ({"epsilon": "much"}, "epsilon is 'much'"),
        ({"protects": "nobody"}, "protects is 'nobody'; choose one of records, answers"),
        ({"feature_norm": 0.0}, "feature_norm is 0.0"),
        ({"feature_norm": float("inf")}, "feature_norm is inf"),
        ({"response_bound": -2.0}, "response_bound is -2.0"),
        ({"signal": 1.0}, "signal is 1.0; it must lie strictly between 0 and 1"),
        ({"fit_intercept": "no"}, "fit_intercept is 'no'"),
        ({"ridge": 1}, "ridge is 1; it must be True or False"),
        ({"score_weight": -0.1}, "score_weight is -0.1"),
    ],
)
def test_a_bad_parameter_is_named_and_shown_when_it_is_used(changes: dict[str, Any], message: str) -> None:
    model = of_records(**changes)
    with pytest.raises(InputError, match=message):
        model.fit(*data(10))
    assert not hasattr(model, "coef_")


def test_a_bad_random_state_is_refused_by_scikit_learn() -> None:
    with pytest.raises(ValueError, match="'dice' cannot be used to seed"):
        of_records(random_state="dice").fit(*data(10))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.array([[0.3], [0.5]]), np.array([0.1, 0.2])),
        (np.zeros((3, 2)), np.zeros(3)),
        (np.eye(4), np.full(4, 0.7)),
        (np.full((5, 2), 1e308), np.full(5, -1e308)),
        (np.full((5, 2), 5e-324), np.full(5, 5e-324)),
    ],
    ids=["two rows", "all zero", "constant response", "huge", "tiny"],
)
def test_odd_data_are_fitted_and_paid(X: Floats, y: Floats, fit_intercept: bool) -> None:
    for bound in (1e-3, 1.0, 1e3):
        model = of_records(
            feature_norm=bound, response_bound=bound, fit_intercept=fit_intercept, random_state=1
        ).fit(X, y)
        assert np.isfinite(model.coef_).all()
        assert np.isfinite(model.payments_).all()
        assert model.payments_.min() >= 0


def test_one_row_is_too_few() -> None:
    with pytest.raises(ValueError, match="minimum of 2"):
        of_records().fit([[0.1, 0.2]], [0.3])


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ({}, "feature_norm and response_bound not declared"),
        ({"feature_norm": 1.0}, "^response_bound not declared"),
        ({"response_bound": 1.0}, "^feature_norm not declared"),
    ],
)
def test_bounds_that_are_not_declared_are_1_with_a_warning(declared: dict[str, Any], told: str) -> None:
    X, y = data(30)
    with pytest.warns(UndeclaredBounds, match=told):
        model = PrivateRegressor(random_state=0, **declared).fit(X, y)
    assert np.array_equal(model.coef_, of_records(random_state=0).fit(X, y).coef_)


# Units


vectors = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2)
bounds = st.floats(min_value=1e-6, max_value=1e6)


@given(st.lists(vectors, min_size=1, max_size=4), bounds, st.booleans())
def test_a_normalised_row_points_the_same_way_has_norm_at_most_1_and_depends_on_no_other_row(
    rows: list[list[float]], bound: float, fit_intercept: bool
) -> None:
    units, X = Units(bound, 1.0, fit_intercept), np.array(rows)
    Z = units.features(X)
    assert np.linalg.norm(Z, axis=1).max() <= 1 + 1e-12
    for x, z in zip(X, Z, strict=True):
        assert np.array_equal(units.features(x[None])[0], z)
        norm = Fraction(x[0]) ** 2 + Fraction(x[1]) ** 2
        tail = z[1:] * np.sqrt(2) if fit_intercept else z
        if norm <= Fraction(bound) ** 2:
            assert tail == pytest.approx(x / bound, rel=1e-12)
        else:
            assert np.linalg.norm(tail) == pytest.approx(1.0)
            assert np.array_equal(np.signbit(tail), np.signbit(x))


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_coefficients_come_back_in_the_units_of_the_data(fit_intercept: bool) -> None:
    rng = np.random.default_rng(1)
    units, X = Units(7.0, 30.0, fit_intercept), rng.uniform(-3, 3, size=(50, 3))
    theta = rng.normal(size=3 + fit_intercept)
    coefficients, intercept = units.coefficients(theta)
    assert X @ coefficients + intercept == pytest.approx(30.0 * units.features(X) @ theta)


# Accuracy and payments


def error(model: PrivateRegressor, n: int) -> float:
    """The median distance of the coefficients from the truth, over ten data sets and seeds."""
    fits = (clone(model).set_params(random_state=seed).fit(*data(n, seed)) for seed in range(10))
    return float(np.median([np.linalg.norm(fit.coef_ - COEFFICIENTS) for fit in fits]))


@pytest.mark.parametrize("model", [of_records(), of_answers()], ids=["records", "answers"])
def test_more_privacy_costs_accuracy(model: PrivateRegressor) -> None:
    noisy, clear = clone(model).set_params(epsilon=0.2), clone(model).set_params(epsilon=5.0)
    assert error(clear, 2_000) < error(noisy, 2_000) / 3


def test_more_people_buy_accuracy() -> None:
    assert error(of_records(), 16_000) < error(of_records(), 1_000) / 3


def test_protecting_answers_alone_is_far_more_accurate() -> None:
    assert error(of_answers(), 1_000) < error(of_records(), 1_000) / 3


def test_a_row_that_is_all_that_is_known_of_its_kind_is_named_where_answers_are_protected() -> None:
    X, y = data(40)
    X[:, 2] = 0.0
    X[7, 2] = 0.9
    with pytest.raises(InputError, match="row 7"):
        of_answers().fit(X, y)
    X[7, 2] = 0.0
    with pytest.raises(InputError, match="constant, or follow from others"):
        of_answers().fit(X, y)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_with_next_to_no_privacy_the_coefficients_are_least_squares(fit_intercept: bool) -> None:
    X, y = data(500)
    model = of_records(epsilon=1e9, fit_intercept=fit_intercept, random_state=0).fit(X, y)
    reference = LinearRegression(fit_intercept=fit_intercept).fit(X, y)
    assert model.coef_ == pytest.approx(reference.coef_, abs=1e-5)
    assert model.intercept_ == pytest.approx(reference.intercept_, abs=1e-5)
    assert model.score(X, y) == pytest.approx(reference.score(X, y), abs=1e-5)


def errors_of_diabetes(rows: int, protects: str, epsilon: float, **changes: Any) -> tuple[Floats, float]:
    """The mean square errors of 30 seeds, features and responses mapped from their ranges to [-1, 1], and that of
    predicting the middle of the range.
    """
    X, y = (2 * (a - a.min(0)) / np.ptp(a, axis=0) - 1 for a in load_diabetes(return_X_y=True))
    X, y = X[:rows], y[:rows]
    model = of_records(protects=protects, epsilon=epsilon, feature_norm=X.shape[1] ** 0.5, **changes)
    fits = (clone(model).set_params(random_state=seed, score_weight=0.0).fit(X, y) for seed in range(30))
    return np.array([np.mean((y - fit.predict(X)) ** 2) for fit in fits]), float(np.mean(y**2))


@pytest.mark.parametrize("rows", [200, 442])
@pytest.mark.parametrize("protects", ["records", "answers"])
def test_where_noise_drowns_everything_it_predicts_no_worse_than_zero(protects: str, rows: int) -> None:
    """At epsilon 0.1, on few rows, by more than three standard errors: once in a thousand tests at most."""
    errors, zero = errors_of_diabetes(rows, protects, 0.1)
    assert errors.mean() < zero + 3 * errors.std() / np.sqrt(len(errors))


def test_without_a_ridge_it_would_predict_far_worse_and_with_little_noise_a_ridge_costs_nothing() -> None:
    errors, zero = errors_of_diabetes(442, "answers", 0.1, ridge=False)
    assert errors.mean() > 3 * zero
    free, ridge = (errors_of_diabetes(442, "answers", 100.0, ridge=one)[0] for one in (False, True))
    assert ridge == pytest.approx(free, rel=1e-3)


@pytest.mark.parametrize("m", [0.01, 1.0, 20.0, 1e4])
def test_noise_adds_at_most_a_quarter_of_the_squared_signal_to_predictions(m: float) -> None:
    """Computed: the estimate is linear, so that each entry of the noise moves it by a column."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(50, 4)) * [1.0, 0.3, 0.1, 0.01]
    G, d, n, signal = X.T @ X, 4, 50, 0.5
    M = np.diag([1.0, 0.8, 0.5, 0.2]) @ G
    moved = np.column_stack([adaptive_ridge(M, m * e, G, n, m**2, signal) for e in np.eye(d)])
    added = float(np.mean(np.square(X @ moved).sum(axis=1)))
    assert 0 < added <= signal**2 / 4


@pytest.mark.parametrize("epsilon", [0.5, 200.0])
@pytest.mark.parametrize("model", [of_records(score_weight=2.0), of_answers(fit_intercept=False, signal=0.8)])
def test_payments_are_recomputed_from_the_releases_and_ones_own_record(model: Any, epsilon: float) -> None:
    """Up to a millionth, the rounding of a payment, and the grid of the data."""
    X, y = data(80)
    y[::7] *= 40  # reports beyond the bound
    fitted = clone(model).set_params(epsilon=epsilon).fit(X, y)
    assert fitted.payments_ == pytest.approx(recomputed(fitted, X, y), abs=2e-5 * fitted.score_weight)
    assert np.ptp(fitted.payments_) > 1e-3


records = st.tuples(*[st.floats(min_value=-1e9, max_value=1e9)] * 4)


@given(
    st.lists(records, min_size=2, max_size=6),
    st.floats(min_value=0.01, max_value=0.99),
    st.floats(min_value=1e-3, max_value=1e6),
    st.integers(min_value=0, max_value=2**31),
)
def test_payments_are_never_negative_and_never_above_their_cap(
    rows: list[tuple[float, ...]], signal: float, epsilon: float, seed: int
) -> None:
    table: npt.NDArray[np.float64] = np.array(rows)
    model = of_records(signal=signal, epsilon=epsilon, random_state=seed)
    payments = model.fit(table[:, :3], table[:, 3]).payments_
    assert payments.min() >= 0
    assert payments.max() <= 4 * signal**2


@pytest.mark.slow
def test_payments_are_the_same_whether_predictions_are_integrated_or_tabulated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, y = data(400)
    direct = of_answers().fit(X, y)
    monkeypatch.setattr("truthful.beliefs.MANY_PLAYERS", 0)
    tabulated = of_answers().fit(X, y)
    # Predictions differ by 1e-9 at most, so that rounding down may differ by one step.
    assert tabulated.payments_ == pytest.approx(direct.payments_, abs=1.001e-6)
