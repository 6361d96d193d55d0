"""scikit-learn's door: private linear regression as an estimator for pipelines, searches and clones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from truthful import check
from truthful.beliefs import Beliefs
from truthful.beliefs.laws import TruncatedNormal, UniformBall
from truthful.check import Floats
from truthful.errors import InputError
from truthful.groups import player_hashes
from truthful.lattice import Bits, SeededBits, SystemBits
from truthful.mechanism import Mechanism, private_estimates
from truthful.moments import grid_features, grid_responses, group_moments
from truthful.payments import paymaster
from truthful.settlement.draw import Drawing

ESTIMATORS = ("noisy-statistics", "ridge-ball")


class PrivateRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Linear regression with ε-differential privacy, and a payment for each row that rewards the truth.

    Each row is one person: features that were verified and a response that she reported. Everybody's coefficients are
    released with noise, and so are the coefficients of two random halves; a person is paid by how well her report
    predicts what the other half's coefficients say about her.

    Bounds are declared, never read off the data: a row of `X` longer than `feature_norm` is shortened to that length,
    a response beyond ±`response_bound` is moved to it. So one person, whatever she reports, has a bounded influence.

    Parameters
    ----------
    epsilon : float, default=1.0
        The total privacy level, above 0; smaller is more private. Replacing one row by any other changes the
        probability of any set of coefficients by a factor of at most exp(epsilon).
    estimator : {"noisy-statistics", "ridge-ball"}, default="noisy-statistics"
        How the coefficients are made private. "noisy-statistics" adds noise to XᵀX and Xᵀy and then solves;
        "ridge-ball" adds noise to the ridge solution of norm at most `signal`, and needs `regularization`.
    feature_norm : float, default=1.0
        The declared bound on the Euclidean norm of a row of `X`, above 0.
    response_bound : float, default=1.0
        The declared bound on the absolute value of a response, above 0.
    signal : float, default=0.5
        The share of `response_bound` that the features (and the intercept) can explain, between 0 and 1. It bounds
        the norm of the normalised coefficients; the rest of `response_bound` bounds the noise in the responses.
    fit_intercept : bool, default=True
        Whether to learn an intercept too.
    regularization : float or None, default=None
        The ridge penalty of "ridge-ball", above 0, for features of norm at most 1. The noise is in proportion to
        1/(`regularization` · `epsilon`), however many rows there are: let it grow with their square root.
    public_share : float, default=0.9
        The share of `epsilon` that is spent on the coefficients, between 0 and 1; the rest is spent on the halves.
    score_weight : float, default=1.0
        How much a payment depends on the score, 0 or above. A base payment is added, the least that keeps every
        payment from being negative: 3 · `score_weight` · `signal`².
    random_state : int, RandomState instance or None, default=None
        None draws exact noise from the operating system, and the halves too. Anything else is a rehearsal: it can be
        repeated, so it protects nobody.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features_in_,)
        The private coefficients, in the units of `X` and `y`.
    intercept_ : float
        The private intercept; 0.0 without `fit_intercept`.
    estimates_ : truthful.mechanism.Estimates
        The private estimates of everybody and of the two halves, in normalised units. With her own row and group,
        anybody can recompute her payment from them.
    groups_ : ndarray of shape (n_samples,)
        The random half, 0 or 1, of each row. The halves are of equal size, up to one.
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
    >>> model = PrivateRegressor(epsilon=2.0, feature_norm=2**0.5, random_state=0).fit(X, y)
    >>> print(model.coef_.round(2), round(model.intercept_, 2))
    [ 0.2 -0.1] 0.1
    >>> print(model.payments_[:3].round(2), model.rehearsal_)
    [0.71 0.74 0.75] True
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        estimator: str = "noisy-statistics",
        feature_norm: float = 1.0,
        response_bound: float = 1.0,
        signal: float = 0.5,
        fit_intercept: bool = True,
        regularization: float | None = None,
        public_share: float = 0.9,
        score_weight: float = 1.0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.estimator = estimator
        self.feature_norm = feature_norm
        self.response_bound = response_bound
        self.signal = signal
        self.fit_intercept = fit_intercept
        self.regularization = regularization
        self.public_share = public_share
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
        units, mechanism, bits = self._units(), self._mechanism(), self._bits()
        # In one memory layout sums over a row have one order, so that the same data give the same bits.
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64, order="C", ensure_min_samples=2)
        kx = grid_features(units.features(X))
        beliefs = self._beliefs(kx.shape[1])
        ky = grid_responses(units.responses(y), beliefs.response_bound)
        groups = random_halves(len(ky), bits)
        halves = group_moments(kx, ky, groups)
        estimates = private_estimates(halves, mechanism, beliefs, Drawing(bits))
        master = paymaster(mechanism, beliefs, estimates, (halves[0].count, halves[1].count))
        self.coef_, self.intercept_ = units.coefficients(estimates.public.theta)
        self.estimates_, self.groups_ = estimates, groups
        self.payments_ = master.payments(kx, ky, groups)
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
        if not isinstance(self.fit_intercept, (bool, np.bool_)):
            raise InputError(f"fit_intercept is {self.fit_intercept!r}; it must be True or False.")
        return Units(
            check.positive("feature_norm", self.feature_norm),
            check.positive("response_bound", self.response_bound),
            bool(self.fit_intercept),
        )

    def _mechanism(self) -> Mechanism:
        gamma, R = self.regularization, check.share("signal", self.signal)
        mechanism = Mechanism(
            epsilon=check.positive("epsilon", self.epsilon),
            base_payment=0.0,
            score_weight=check.nonnegative("score_weight", self.score_weight),
            estimator=check.choice("estimator", self.estimator, ESTIMATORS),
            peer_estimator="noisy-statistics",
            public_share=check.share("public_share", self.public_share),
            regularization=None if gamma is None else check.positive("regularization", gamma),
        )
        return mechanism.with_base_payment(mechanism.score_weight * mechanism.scoring.loss(R))

    def _beliefs(self, dimension: int) -> Beliefs:
        R = float(self.signal)
        M = 1 - R
        return Beliefs(
            dimension=dimension, prior=UniformBall(radius=R), noise=TruncatedNormal(bound=M, sd=M / 2)
        )

    def _bits(self) -> Bits:
        if self.random_state is None:
            return SystemBits()
        return SeededBits(int(check_random_state(self.random_state).randint(2**31)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # At the default epsilon the noise swamps the 200 rows that scikit-learn's own check of the score fits.
        tags.regressor_tags.poor_score = True
        tags.non_deterministic = self.random_state is None
        return tags


@dataclass(frozen=True)
class Units:
    """The declared bounds, and the maps they make between the data's units and normalised ones.

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


def random_halves(players: int, bits: Bits) -> npt.NDArray[np.uint8]:
    """A random half, 0 or 1, for each player; equal sizes, up to one.

    Players in the order of a keyed hash are a random permutation, and its entries are as often even as odd.
    """
    key = bits.bits(128).to_bytes(16, "little")
    permutation = np.argsort(player_hashes(np.arange(players), key), kind="stable")
    return (permutation % 2).astype(np.uint8)
