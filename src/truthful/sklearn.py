"""scikit-learn's door: private linear regression as an estimator for pipelines, searches and clones."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from truthful import check
from truthful.beliefs import Beliefs
from truthful.check import Floats
from truthful.draw import Drawing
from truthful.errors import InputError
from truthful.lattice import SeededBits, SystemBits
from truthful.laws import TruncatedNormal, UniformBall
from truthful.mechanism import Mechanism, paymaster, private_estimates
from truthful.moments import grid_features, grid_responses, group_moments


class PrivateRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Linear regression with ε-differential privacy, and the payments of Algorithm 2.

    Bounds are declared, never read off the data: rows of X longer than `feature_norm` are shortened to it, responses
    beyond ±`response_bound` are moved to it. Everything depends on the data only through that and the private noise.

    Parameters
    ----------
    epsilon : the total privacy level.
    estimator : "noisy-statistics" (any features) or "ridge-ball" (needs `regularization`).
    feature_norm : bound on the Euclidean norm of a row of X.
    response_bound : bound on |y|.
    signal : share of the response bound that features can explain, in (0, 1).
    fit_intercept : whether to learn a constant too.
    regularization : the ridge penalty γ of `ridge-ball`, in normalised units (features of norm 1).
    public_share : share of epsilon spent on the coefficients; the rest is for the payments.
    score_weight : b, how much a payment depends on the score. The base payment is the least that keeps every payment
        from being negative.
    random_state : None draws protective noise from the operating system. Anything else is a rehearsal: it can be
        repeated, and it protects nobody.

    Attributes
    ----------
    coef_, intercept_ : the private coefficients.
    payments_ : what each player (row) is paid.
    rehearsal_ : whether the noise came from a seed.
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
        random_state: Any = None,
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
        """Learn the coefficients and compute every row's payment."""
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64, ensure_min_samples=2)
        bits, groups = self._randomness(len(y))
        Z = self._features(X)
        beliefs, mechanism = self._beliefs(Z.shape[1]), self._mechanism()
        kx = grid_features(Z)
        ky = grid_responses(np.asarray(y) / check.positive("response_bound", self.response_bound), 1.0)
        halves = group_moments(kx, ky, groups)
        estimates = private_estimates(halves, mechanism, beliefs, Drawing(bits))
        self.rehearsal_ = self.random_state is not None
        self._unpack(estimates.public.theta)
        master = paymaster(mechanism, beliefs, estimates, (halves[0].count, halves[1].count))
        self.payments_ = master.payments(kx, ky, groups)
        return self

    def predict(self, X: Any) -> Floats:
        """Predicted responses."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        predicted: Floats = X @ self.coef_ + self.intercept_
        return predicted

    def _randomness(self, n: int) -> tuple[SystemBits | SeededBits, npt.NDArray[np.uint8]]:
        """The source of noise, and random halves of equal size (up to one)."""
        if self.random_state is None:
            bits: SystemBits | SeededBits = SystemBits()
            rng = np.random.default_rng(secrets.randbits(128))
        else:
            seed = int(check_random_state(self.random_state).randint(2**31))
            bits, rng = SeededBits(seed), np.random.default_rng(seed)
        return bits, (rng.permutation(n) % 2).astype(np.uint8)

    def _features(self, X: Floats) -> Floats:
        """Rows of norm at most 1; with a constant, (1, x)/√2."""
        Z: Floats = X / check.positive("feature_norm", self.feature_norm)
        Z = Z / np.maximum(1.0, np.linalg.norm(Z, axis=1))[:, None]
        if not self.fit_intercept:
            return Z
        augmented: Floats = np.column_stack([np.ones(len(Z)), Z]) / np.sqrt(2.0)
        return augmented

    def _unpack(self, theta: Floats) -> None:
        """Normalised coefficients back to the units of X and y."""
        if self.fit_intercept:
            theta = theta / np.sqrt(2.0) * self.response_bound
            self.intercept_, self.coef_ = float(theta[0]), theta[1:] / self.feature_norm
        else:
            self.intercept_, self.coef_ = 0.0, theta * self.response_bound / self.feature_norm

    def _beliefs(self, dimension: int) -> Beliefs:
        R = check.share("signal", self.signal)
        return Beliefs(
            dimension=dimension, prior=UniformBall(radius=R), noise=TruncatedNormal(bound=1 - R, sd=(1 - R) / 2)
        )

    def _mechanism(self) -> Mechanism:
        if self.estimator not in ("noisy-statistics", "ridge-ball"):
            raise InputError(f"estimator is {self.estimator!r}; choose noisy-statistics or ridge-ball.")
        mechanism = Mechanism(
            epsilon=self.epsilon,
            base_payment=0.0,
            score_weight=self.score_weight,
            estimator=self.estimator,
            peer_estimator="noisy-statistics",
            public_share=self.public_share,
            regularization=self.regularization,
        )
        return mechanism.with_base_payment(self.score_weight * mechanism.scoring.loss(self.signal))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Private noise swamps the toy data sets of scikit-learn's own checks.
        tags.regressor_tags.poor_score = True
        tags.non_deterministic = self.random_state is None
        return tags
