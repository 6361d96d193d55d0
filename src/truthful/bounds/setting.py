"""What a bound depends on: the model of the data, and one setting of the mechanism. Public numbers only.

`published` and `proved` have one function for each result, with the same names and the same argument: a Setting.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from truthful import check
from truthful.check import Floats
from truthful.costs import PRIVACY_COSTS, Costs, miss_probability
from truthful.errors import InputError

if TYPE_CHECKING:
    from truthful.geometry import Geometry

#: Whom a player is scored against: one of two random halves, or everybody else, by one release at the whole ε.
PEERS = ("halves", "leave-one-out")
#: Estimates from which a player's own record can be taken out again by those who know it.
LEFT_OUT = ("instruments", "known-design", "noisy-statistics")

#: A number, or an array of settings to evaluate at once.
Numbers = float | Floats


@dataclass(frozen=True)
class Model:
    """y = θ·x + z with ‖x‖ ≤ 1, ‖θ‖ ≤ R, z independent with mean 0 on [−M, M]; Σ = E[x xᵀ].

    least_eigenvalue: of Σ; 0 where nothing is declared. greatest_eigenvalue: of Σ; at most 1 because ‖x‖ ≤ 1.
    inverse_square: ‖Σ⁻¹‖²_F. inverse_trace: tr Σ⁻¹. sampling_variance: sup over ‖θ‖ ≤ R of tr Cov(Σ⁻¹xy).
    direction_variance: sup over unit e and ‖θ‖ ≤ R of Var(e·Σ⁻¹xy). prediction_variance: sup over ‖θ‖ ≤ R of
    tr Cov(Σ^(−1/2)xy), for predictions x·θ̂ on average over x. reach: sup of ‖Σ⁻¹x‖ over the features. leverage: sup of
    xᵀΣ⁻¹x over the features. These seven are infinite where Σ is unknown.
    prior_square: E‖θ‖² under the prior, the error of answering with its mean. mean_square: E[(θ·x)²].
    mean_square_norm: E‖x‖². ball: x is uniform on the ball.
    """

    dimension: int
    radius: float
    noise_bound: float
    noise_variance: float
    least_eigenvalue: float
    greatest_eigenvalue: float = 1.0
    inverse_square: float = math.inf
    inverse_trace: float = math.inf
    sampling_variance: float = math.inf
    direction_variance: float = math.inf
    reach: float = math.inf
    leverage: float = math.inf
    prediction_variance: float = math.inf
    prior_square: float = math.inf
    mean_square: float = math.inf
    mean_square_norm: float = 1.0
    ball: bool = False

    @property
    def response_bound(self) -> float:
        """Y = R + M."""
        return self.radius + self.noise_bound


def unit_ball(
    dimension: int,
    *,
    radius: float,
    noise_bound: float,
    noise_variance: float,
    prior_variance: float | None = None,
) -> Model:
    """The paper's model: x uniform on the unit ball of R^d, so Σ = I/(d+2).

    prior_variance is that of one coefficient; by default R²/(d+2), for θ uniform on its ball.
    """
    d, R, sigma2 = check.integer("dimension", dimension), check.positive("radius", radius), noise_variance
    variance = R**2 / (d + 2) if prior_variance is None else prior_variance
    return Model(
        dimension=d,
        radius=R,
        noise_bound=check.nonnegative("noise_bound", noise_bound),
        noise_variance=check.nonnegative("noise_variance", sigma2),
        least_eigenvalue=1 / (d + 2),
        greatest_eigenvalue=1 / (d + 2),
        inverse_square=float(d * (d + 2) ** 2),
        inverse_trace=float(d * (d + 2)),
        sampling_variance=d * (d + 2) * sigma2 + R**2 * ((d + 2) ** 2 / (d + 4) - 1),
        direction_variance=(d + 2) * sigma2 + R**2 * (3 * (d + 2) / (d + 4) - 1),
        reach=float(d + 2),
        leverage=float(d + 2),
        prediction_variance=d * sigma2 + R**2 * ((d + 2) / (d + 4) - 1 / (d + 2)),
        prior_square=variance * d,
        mean_square=variance * d / (d + 2),
        mean_square_norm=d / (d + 2),
        ball=True,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Setting:
    """A model, and the mechanism's numbers. Any number but xi may be an array; arrays broadcast.

    epsilon is the total joint privacy level: the paper's ε is half of it. alpha is the share of players who may
    misreport, beta the probability that an event a bound needs fails. gamma is the ridge penalty of the public
    estimate, peer_gamma (by default the same) that of the halves. Payments are rounded down by less than
    `rounding`, in currency. xi is the paper's spectral tolerance ξ, which `proved` mostly chooses itself.

    peers is one of PEERS. With "leave-one-out" there is one estimate, of everybody, at the whole ε: peer_estimator is
    then estimator, public_share and the penalties mean nothing, and base payments go by length, max(a, b·loss(c‖x‖)).
    clip is c, at most R and by default R: never-negative payments keep predictions in ±c‖x‖. geometry is that of a
    roster, for the estimator "instruments" alone. belief_gap is Γ: how far what a player expects may be from her own
    prediction because she believes otherwise than declared.
    """

    model: Model
    costs: Costs
    n: Numbers
    epsilon: Numbers
    alpha: Numbers
    beta: Numbers = 0.01
    a: Numbers = 0.0
    b: Numbers = 0.0
    gamma: Numbers = math.nan
    peer_gamma: Numbers | None = None
    public_share: Numbers = 0.5
    gram_share: Numbers = 0.5
    estimator: str = "known-design"
    peer_estimator: str = "known-design"
    rule: str = "quadratic"
    payments: str = "never-negative"
    privacy: str = "quadratic"
    rounding: float = 0.0
    xi: float = 0.5
    peers: str = "halves"
    clip: Numbers | None = None
    geometry: Geometry | None = None
    belief_gap: Numbers = 0.0

    def __post_init__(self) -> None:
        for name in ("n", "epsilon"):
            values = np.asarray(getattr(self, name))
            if not np.all(values > 0):
                raise InputError(f"{name} is {values[~(values > 0)].flat[0]}; it must be above 0.")
        if not np.all((np.asarray(self.beta) > 0) & (np.asarray(self.beta) < 1)):
            raise InputError(f"beta is {self.beta!r}; a probability must lie between 0 and 1.")
        check.share("xi", self.xi)
        self._require_peers()
        c, R = np.asarray(self.reach), self.model.radius
        if not np.all((c > 0) & (c <= R)):
            bad = c[~((c > 0) & (c <= R))].flat[0]
            raise InputError(f"clip is {bad}; it must be above 0 and at most the radius {R:g}.")

    def _require_peers(self) -> None:
        if self.peers not in PEERS:
            raise InputError(f"peers is {self.peers!r}; choose {' or '.join(PEERS)}.")
        if not self.leave_one_out:
            if self.estimator == "instruments":
                raise InputError("Estimator 'instruments' has no halves; choose peers 'leave-one-out'.")
            return
        if self.estimator not in LEFT_OUT:
            raise InputError(
                f"Nobody can be left out of the estimator {self.estimator!r}; choose {', '.join(LEFT_OUT)}."
            )
        if not np.all(np.asarray(self.n) >= 2):
            raise InputError(f"n is {np.min(self.n)}; who is scored against all others needs one at least.")
        object.__setattr__(self, "peer_estimator", self.estimator)

    def at(self, **changes: Any) -> Setting:
        """The same setting with some numbers changed."""
        return replace(self, **changes)

    @property
    def clipped(self) -> bool:
        """Whether peer predictions are kept in ±c‖x‖, so that no payment is negative."""
        return self.payments == "never-negative"

    @property
    def reach(self) -> Numbers:
        """c, how far from 0 a clipped prediction for ‖x‖ = 1 can be."""
        return self.model.radius if self.clip is None else self.clip

    @property
    def leave_one_out(self) -> bool:
        """Whether everybody is scored against everybody else, by one release."""
        return self.peers == "leave-one-out"

    @property
    def epsilon_public(self) -> Numbers:
        """What the published estimate spends of ε: all of it, if no other is made."""
        return self.epsilon if self.leave_one_out else self.epsilon * self.public_share

    @property
    def epsilon_peer(self) -> Numbers:
        """What each half's estimate spends of ε; without halves the published estimate is also that of the peers."""
        return self.epsilon if self.leave_one_out else self.epsilon - self.epsilon_public

    @cached_property
    def above_threshold(self) -> Floats:
        """The chance 1 − F(τ) of a cost above the threshold: the largest p ≤ α with P[Binomial(n, p) ≤ αn] ≥ 1 − β."""
        return np.asarray(
            np.minimum(miss_probability(n=self.n, alpha=self.alpha, beta=self.beta), self.alpha)
        )

    @property
    def lying_chance(self) -> Numbers:
        """κ/n, a bound on the chance that one of a player's peers lies, as far as she can know.

        Who lies has a cost above τ, and so has each player with a chance of at most 1 − F(τ), whatever θ is: of all
        of them E|A| ≤ κ = n(1 − F(τ)) lie on average. The halves count the paper's α ≥ 1 − F(τ).
        """
        return self.above_threshold if self.leave_one_out else self.alpha

    @property
    def half_gamma(self) -> Numbers:
        """The ridge penalty of the halves."""
        return self.gamma if self.peer_gamma is None else self.peer_gamma

    @property
    def privacy_cost(self) -> Numbers:
        """h(ε), what one unit of c costs at the total level ε."""
        cost: Numbers = PRIVACY_COSTS[self.privacy](self.epsilon)
        return cost
