"""What a bound depends on: the model of the data, and one setting of the mechanism. Public numbers only.

`published` and `proved` have one function for each result, with the same names and the same argument: a Setting.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from truthful import check
from truthful.check import Floats
from truthful.costs import PRIVACY_COSTS, Costs
from truthful.errors import InputError

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

    def __post_init__(self) -> None:
        for name in ("n", "epsilon"):
            values = np.asarray(getattr(self, name))
            if not np.all(values > 0):
                raise InputError(f"{name} is {values[~(values > 0)].flat[0]}; it must be above 0.")
        if not np.all((np.asarray(self.beta) > 0) & (np.asarray(self.beta) < 1)):
            raise InputError(f"beta is {self.beta!r}; a probability must lie between 0 and 1.")
        check.share("xi", self.xi)

    def at(self, **changes: Any) -> Setting:
        """The same setting with some numbers changed."""
        return replace(self, **changes)

    @property
    def clipped(self) -> bool:
        """Whether peer predictions are kept in ±R‖x‖, so that no payment is negative."""
        return self.payments == "never-negative"

    @property
    def epsilon_public(self) -> Numbers:
        """What the published estimate spends of ε."""
        return self.epsilon * self.public_share

    @property
    def epsilon_peer(self) -> Numbers:
        """What each half's estimate spends of ε."""
        return self.epsilon - self.epsilon_public

    @property
    def half_gamma(self) -> Numbers:
        """The ridge penalty of the halves."""
        return self.gamma if self.peer_gamma is None else self.peer_gamma

    @property
    def privacy_cost(self) -> Numbers:
        """h(ε), what one unit of c costs at the total level ε."""
        cost: Numbers = PRIVACY_COSTS[self.privacy](self.epsilon)
        return cost
