"""scikit-learn's door: private linear regression as an estimator for pipelines, searches and clones."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from truthful import check
from truthful.beliefs import Beliefs
from truthful.beliefs.laws import TruncatedNormal, UniformBall
from truthful.check import Floats
from truthful.errors import InputError
from truthful.estimators.ridge import adaptive_ridge
from truthful.geometry import leverages
from truthful.instruments import best_transform, shorten
from truthful.lattice import SeededBits, SystemBits
from truthful.moments import (
    GRID,
    PRODUCT,
    Sums,
    Transform,
    as_floats,
    grid_features,
    grid_responses,
    instruments_on_grid,
    sums,
)
from truthful.noise import L2Laplace
from truthful.one_release import (
    LARGEST_LEVERAGE,
    LeaveOneOut,
    OneRelease,
    paymaster,
    require_invertible,
)
from truthful.settlement.draw import Drawing

PROTECTS = ("records", "answers")


class UndeclaredBounds(UserWarning):
    """A bound was not declared, and 1 is used: values beyond it are cut, and their number is not reported."""


class PrivateRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Linear regression with ε-differential privacy, and a payment for each row that rewards the truth.

    Each row is one person: features that were verified and a response that she reported. One sum over everybody's
    responses is released with noise; a person is paid by how well her report predicts what the others' reports say of
    her, with her own taken out of the sum.

    Bounds are declared, never read off the data: a row of `X` longer than `feature_norm` is shortened to that length,
    a response beyond ±`response_bound` is moved to it. So one person, whatever she reports, has a bounded influence.

    Parameters
    ----------
    epsilon : float, default=1.0
        The privacy level, above 0; smaller is more private. Replacing what is protected of one row by anything else
        changes the probability of any set of coefficients by a factor of at most exp(epsilon).
    protects : {"records", "answers"}, default="records"
        What is protected of a row. "records": features and response. Noise is then added to sums of features too.
        "answers": the response alone. Far more accurate; sums of features are used as they are, and what is public
        (`coef_`, `estimate_`) gives the features of a row away to whoever knows those of all others.
    feature_norm : float, default=None
        The declared bound on the Euclidean norm of a row of `X`, above 0. None is 1, with a warning
        (`UndeclaredBounds`): declare what you know of the features without looking at these rows.
    response_bound : float, default=None
        The declared bound on the absolute value of a response, above 0. None is 1, with the same warning. Subtract the
        middle of the declared range from responses first: predictions are drawn toward 0.
    signal : float, default=0.5
        The share of `response_bound` that the features (and the intercept) can explain, between 0 and 1. It bounds
        the norm of the normalised coefficients; the rest of `response_bound` bounds the noise in the responses.
    ridge : bool, default=True
        Whether to draw coefficients toward 0 as far as the privacy noise makes it worthwhile. The penalty follows from
        public numbers, so it costs no privacy; without noise it is none. Payments have no part in it.
    fit_intercept : bool, default=True
        Whether to learn an intercept too.
    score_weight : float, default=1.0
        How much a payment depends on the score, 0 or above. A base payment is added, the least that keeps every
        payment from being negative: 3 · `score_weight` · `signal`² times the squared length of the normalised row.
    random_state : int, RandomState instance or None, default=None
        None draws exact noise from the operating system. Anything else is a rehearsal: it can be repeated, so it
        protects nobody.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features_in_,)
        The private coefficients, in the units of `X` and `y`.
    intercept_ : float
        The private intercept; 0.0 without `fit_intercept`.
    estimate_ : truthful.one_release.LeaveOneOut
        What was released, in normalised units, without a penalty. With her own row, anybody can recompute her payment
        from it.
    payments_ : ndarray of shape (n_samples,)
        What each row is paid, never negative. Not public: each payment is a function of that row's own report.
    rehearsal_ : bool
        Whether the noise came from a seed.
    n_features_in_ : int
        The number of features seen by `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where `X` has string column names.

    Notes
    -----
    Everything but `payments_` is private in the sense of `epsilon`; `del model.payments_` before a model is shared.
    The number of rows is public.

    Every fit spends `epsilon` again. A search or a cross-validation fits many times and compares scores that have no
    noise at all: do it on invented data, or on data that are already public.

    How many rows were cut to the bounds is not reported: it depends on the data, so reporting it would not be private.

    A step before this one must be private as well. A StandardScaler fitted to the same rows is not: its means carry
    every row. Use a FunctionTransformer that maps declared ranges to [-1, 1].

    A weight per row would change how far one row can move the coefficients; there is no `sample_weight`.

    Examples
    --------
    >>> import numpy as np
    >>> from truthful.sklearn import PrivateRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20_000, 2))
    >>> y = 0.1 + X @ [0.2, -0.1] + rng.uniform(-0.5, 0.5, size=20_000)
    >>> model = PrivateRegressor(epsilon=2.0, feature_norm=2**0.5, response_bound=1.0, random_state=0).fit(X, y)
    >>> print(model.coef_.round(2), round(model.intercept_, 2))
    [ 0.2 -0.1] 0.1
    >>> print(model.payments_[:3].round(2), model.rehearsal_)
    [0.39 0.7  0.58] True
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        protects: str = "records",
        feature_norm: float | None = None,
        response_bound: float | None = None,
        signal: float = 0.5,
        ridge: bool = True,
        fit_intercept: bool = True,
        score_weight: float = 1.0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.protects = protects
        self.feature_norm = feature_norm
        self.response_bound = response_bound
        self.signal = signal
        self.ridge = ridge
        self.fit_intercept = fit_intercept
        self.score_weight = score_weight
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> PrivateRegressor:
        """Learn the coefficients and compute every row's payment.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The features; at least two rows.
        y : array-like of shape (n_samples,)
            The reported responses.

        Returns
        -------
        PrivateRegressor
            The fitted estimator itself.
        """
        units, seed = self._units(), self.random_state
        bits = SystemBits() if seed is None else SeededBits(int(check_random_state(seed).randint(2**31)))
        check.choice("protects", self.protects, PROTECTS)
        R = check.share("signal", self.signal)
        # A single memory layout fixes the order of sums over a row, so that the same data give the same bits.
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64, order="C", ensure_min_samples=2)
        kx = grid_features(units.features(X))
        beliefs = Beliefs(kx.shape[1], UniformBall(R), TruncatedNormal(bound=1 - R, sd=(1 - R) / 2))
        ky = grid_responses(units.responses(y), beliefs.response_bound)
        mechanism = self._mechanism(kx)
        total = sums(kx, ky, mechanism.transform)
        if mechanism.protects == "answers":
            self._require_company(kx, mechanism.transform, total.matrix)
        drawing = Drawing(bits)
        for query in mechanism.queries(total, beliefs):
            drawing(query, Fraction(mechanism.epsilon) * query.share)
        estimate = mechanism.estimate(drawing.answers, total.count, beliefs, total.matrix)
        theta = _ridge(estimate, total, R) if self._switch("ridge") else estimate.theta
        self.coef_, self.intercept_ = units.coefficients(theta)
        self.estimate_ = estimate
        self.payments_ = paymaster(mechanism, beliefs, estimate, total.count).score_players(kx, ky).payment
        self.rehearsal_ = self.random_state is not None
        return self

    def predict(self, X: Any) -> Floats:
        """Predict the responses of some rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The features.

        Returns
        -------
        ndarray of shape (n_samples,)
            `X @ coef_ + intercept_`.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        predicted: Floats = X @ self.coef_ + self.intercept_
        return predicted

    def _units(self) -> Units:
        bounds = {name: getattr(self, name) for name in ("feature_norm", "response_bound")}
        if undeclared := [name for name, bound in bounds.items() if bound is None]:
            warnings.warn(
                f"{' and '.join(undeclared)} not declared: taken to be 1, and what lies beyond is cut. Declare "
                "bounds from what you know, not from the data.",
                UndeclaredBounds,
                stacklevel=3,
            )
        found = {
            name: check.positive(name, 1.0 if bound is None else bound) for name, bound in bounds.items()
        }
        return Units(**found, fit_intercept=self._switch("fit_intercept"))

    def _switch(self, name: str) -> bool:
        value = getattr(self, name)
        if not isinstance(value, (bool, np.bool_)):
            raise InputError(f"{name} is {value!r}; it must be True or False.")
        return bool(value)

    def _mechanism(self, kx: Floats) -> OneRelease:
        answers = self.protects == "answers"
        X = kx / GRID
        return OneRelease(
            epsilon=check.positive("epsilon", self.epsilon),
            base_payment=0.0,
            score_weight=check.nonnegative("score_weight", self.score_weight),
            clip=float(self.signal),
            estimator="instruments" if answers else "noisy-statistics",
            transform=shorten(X, best_transform(X), 1.0) if answers else None,
        )

    def _require_company(self, kx: Floats, transform: Transform | None, matrix: Any) -> None:
        """Refuse features that do not determine coefficients or somebody's peers, before anything is drawn."""
        require_invertible(matrix)
        X, Z = kx / GRID, instruments_on_grid(kx, transform) / GRID
        h = leverages(X, Z, np.asarray(np.linalg.inv(Z.T @ X), dtype=np.float64))
        if not h.max() <= LARGEST_LEVERAGE:
            raise InputError(
                f"More than half of what is known about people like row {int(h.argmax())} is that row itself. Leave it "
                "out, or use fewer features."
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # At the default epsilon the noise swamps the 200 rows of scikit-learn's own check of the score.
        tags.regressor_tags.poor_score = True
        tags.non_deterministic = self.random_state is None
        return tags


def _ridge(estimate: LeaveOneOut, total: Sums, signal: float) -> Floats:
    """Coefficients with the penalty that fits the noise, from the release and public features."""
    matrix: Floats = np.linalg.inv(estimate.inverse).astype(np.float64)
    features = matrix if estimate.transform is None else as_floats(total.features)
    vector = np.array([k / PRODUCT for k in estimate.vector])
    noise = L2Laplace(len(vector), estimate.scale).marginal_variance
    return adaptive_ridge(matrix, vector, features, total.count, noise, signal)


@dataclass(frozen=True)
class Units:
    """The declared bounds, and their maps between the data's units and normalised ones.

    Normalised features are z = x/feature_norm, or (1, x/feature_norm)/√2 with an intercept, so that ‖z‖ ≤ 1.
    """

    feature_norm: float
    response_bound: float
    fit_intercept: bool

    def features(self, X: Floats) -> Floats:
        """z for each row x, shortened to feature_norm where it is longer; a function of that row alone."""
        # Dividing by the largest entry first keeps the square of a huge one from overflowing.
        size = np.maximum(np.abs(X).max(axis=1, keepdims=True), self.feature_norm)
        scaled = X / size
        norm = np.linalg.norm(scaled, axis=1, keepdims=True)
        Z: Floats = scaled / np.maximum(norm, self.feature_norm / size)
        return np.column_stack([np.ones(len(Z)), Z]) / np.sqrt(2.0) if self.fit_intercept else Z

    def responses(self, y: Floats) -> Floats:
        """y/response_bound, moved into [-1, 1]."""
        clipped: Floats = np.clip(y, -self.response_bound, self.response_bound)
        return clipped / self.response_bound

    def coefficients(self, theta: Floats) -> tuple[Floats, float]:
        """The coefficients of x and the intercept, in the data's units."""
        if not self.fit_intercept:
            return theta * (self.response_bound / self.feature_norm), 0.0
        theta = theta * (self.response_bound / np.sqrt(2.0))
        return theta[1:] / self.feature_norm, float(theta[0])
