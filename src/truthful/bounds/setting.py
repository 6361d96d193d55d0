"""Arguments of bounds: the model of the data, and one setting of the mechanism. Public numbers only.

`published` and `proved` have one function for each result, with the same names and the same argument: a Setting. Its
direct consequences are here too: how far liars pull, and the scales of the privacy noise, as in `truthful.estimators`
but for the lattice, which widens them by less than 1e-9.

Liars choose their reports, never their features. Who lies is decided by privacy costs, which may depend on a player's
own features and answer; a player believes of each of the others that she lies with probability at most α, independently
of the rest (the paper's lemma on the expected share of misreports). What the liars report may be agreed between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from truthful import check
from truthful.check import Floats
from truthful.costs import PRIVACY_COSTS, Costs, miss_probability
from truthful.errors import InputError
from truthful.scoring import RULES

if TYPE_CHECKING:
    from truthful.geometry import Geometry

#: The sensitivity of XᵀX in Frobenius norm; the default floor of its eigenvalues, in units of s_N·d^FLOOR_POWER.
GRAM = math.sqrt(2)
FLOOR_POWER = 1.5
#: A record taken out of a released Σ x xᵀ is at most one part in this many of it, in any direction.
LEAST_PEOPLE = 2

#: Numbers of a setting that need no checks, and that no cached value depends on.
UNCHECKED = frozenset({"a", "b", "belief_gap"})

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

    There is one estimate, from everybody, at the whole ε, and each player is scored against it with her own record
    removed. epsilon is the total joint privacy level: the paper, which has two estimates, calls half of it ε. alpha is
    the share of players who may misreport, beta the probability that an event a bound needs fails. gamma is the penalty
    of a ridge, as all of the paper's estimates are, and xi its spectral tolerance ξ, which `proved` mostly chooses
    itself. Payments are rounded down by less than `rounding`, in currency; never-negative base payments go by length,
    max(a, b·loss(c‖x‖)). clip is c, at most R and by default R: never-negative payments keep predictions in ±c‖x‖.
    geometry is the roster's, for the estimator "instruments" alone. belief_gap is Γ: how far what a player expects may
    be from her own prediction because her beliefs differ from the declared ones.
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
    gram_share: Numbers = 0.5
    estimator: str = "known-design"
    rule: str = "quadratic"
    payments: str = "never-negative"
    privacy: str = "quadratic"
    rounding: float = 0.0
    xi: float = 0.5
    clip: Numbers | None = None
    geometry: Geometry | None = None
    belief_gap: Numbers = 0.0
    kept: dict[str, Floats] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("n", "epsilon"):
            values = np.asarray(getattr(self, name))
            if not (values > 0).all():
                raise InputError(f"{name} is {values[~(values > 0)].flat[0]}; it must be above 0.")
        beta = np.asarray(self.beta)
        if not ((beta > 0) & (beta < 1)).all():
            raise InputError(f"beta is {self.beta!r}; a probability must lie between 0 and 1.")
        check.share("xi", self.xi)
        c, R = np.asarray(self.reach), self.model.radius
        fits = (c > 0) & (c <= R)
        if not fits.all():
            bad = c[~fits].flat[0]
            raise InputError(f"clip is {bad}; it must be above 0 and at most the radius {R:g}.")

    def at(self, **changes: Any) -> Setting:
        """This setting with some numbers changed."""
        if not changes.keys() <= UNCHECKED:
            return replace(self, **changes)
        # No cached value depends on these, and nothing needs checking: a search for a plan mostly does this.
        found = object.__new__(type(self))
        found.__dict__.update(self.__dict__, **changes)
        return found

    def memoise(self, name: str, compute: Callable[[Setting], Floats]) -> Floats:
        """Compute once per name. The value may not depend on payments or on Γ."""
        if name not in self.kept:
            self.kept[name] = compute(self)
        return self.kept[name]

    @property
    def clipped(self) -> bool:
        """Whether peer predictions are kept in ±c‖x‖, so that no payment is negative."""
        return self.payments == "never-negative"

    @property
    def reach(self) -> Numbers:
        """c, the bound on a clipped prediction at ‖x‖ = 1."""
        return self.model.radius if self.clip is None else self.clip

    @property
    def loss(self) -> Numbers:
        """The rule's loss(c), the most that a score can subtract; takes arrays of clip levels."""
        return RULES[self.rule].linear * self.reach + 3 * self.reach**2

    @property
    def gain(self) -> Numbers:
        """The rule's gain(c), the most that a score can add."""
        return RULES[self.rule].linear * self.reach + self.reach**2

    @property
    def above_threshold(self) -> Floats:
        """The chance 1 − F(τ) of a cost above the threshold: the largest p ≤ α with P[Binomial(n, p) ≤ αn] ≥ 1 − β.

        Only people with such a cost lie, whatever θ is: on average at most κ = n(1 − F(τ)) of n.
        """
        return self.memoise("above_threshold", _above_threshold)

    @property
    def privacy_cost(self) -> Numbers:
        """h(ε), the cost of one unit of c at the total level ε."""
        cost: Numbers = PRIVACY_COSTS[self.privacy](self.epsilon)
        return cost


def _above_threshold(s: Setting) -> Floats:
    return np.asarray(np.minimum(miss_probability(n=s.n, alpha=s.alpha, beta=s.beta), s.alpha))


# Liars


def expected_pull(model: Model, alpha: Numbers) -> Floats:
    """sup over the features x of E[|xᵀΣ⁻¹x'|·1(x' lies)]: liars move Σ⁻¹Xᵀy/m, along x, by 2Y times this on average.

    Each lie changes a report by at most 2Y. A liar's features are still drawn from the design, so the worst liars are
    the α share of the design with the greatest weight |xᵀΣ⁻¹x'|. On the ball that weight is (d+2)|t|, t having the
    density C(1−t²)^((d−1)/2): with P(|t| > c) = α it adds up to (d+2)·2C(1−c²)^((d+1)/2)/(d+1). For other designs
    |xᵀΣ⁻¹x'| ≤ leverage, and E[(xᵀΣ⁻¹x')²] = xᵀΣ⁻¹x ≤ leverage, so it is at most min(α·leverage, √(α·leverage)).
    """
    alpha = np.asarray(alpha, dtype=np.float64)
    if not model.ball:
        most = alpha * model.leverage if math.isfinite(model.leverage) else np.where(alpha > 0, np.inf, 0.0)
        return np.minimum(most, np.sqrt(most))
    d = model.dimension
    C = math.exp(math.lgamma(d / 2 + 1) - math.lgamma((d + 1) / 2)) / math.sqrt(math.pi)
    # 1 − t² ~ Beta((d+1)/2, 1/2)
    beyond = special.betaincinv((d + 1) / 2, 0.5, alpha)
    return np.asarray((d + 2) * 2 * C / (d + 1) * beyond ** ((d + 1) / 2))


def pull(model: Model, alpha: Numbers) -> Floats:
    """sup of ‖Σ⁻¹·Σ_j x_j/n‖ over any αn players: α·sup‖Σ⁻¹x‖. Omniscient liars move θ̂ by 2Y times this."""
    if not math.isfinite(model.reach):
        return np.full(np.shape(alpha), np.inf)
    return np.asarray(alpha * model.reach)


# The scale of the privacy noise


def sensitivity(estimator: str, model: Model, count: Numbers, gamma: Numbers) -> Floats:
    """L2 sensitivity of the released vector: 2Y/count for Xᵀy/count; C/γ, and at most the diameter, for a ridge.

    The free ridge lies in the ball of radius ½Y√(count/γ), so the constant of the ball at that radius holds.
    """
    R, Y = model.radius, model.response_bound
    if not estimator.startswith("ridge"):
        return np.asarray(2 * Y / np.asarray(count, dtype=np.float64))
    radius = R if estimator == "ridge-ball" else Y / 2 * np.sqrt(np.asarray(count) / gamma)
    t = 2 * radius / (Y + np.sqrt(Y**2 + 8 * radius**2))
    C = 2 * np.sqrt(1 - t**2) * (Y + radius * t)
    return np.minimum(C / gamma, 2 * radius)


def noise_scale(s: Setting, count: Numbers) -> Floats:
    """The noise scale of the vector that estimates the coefficients, as a mean over `count` players."""
    spent = s.epsilon * (1 - s.gram_share if s.estimator == "noisy-statistics" else 1.0)
    return np.asarray(sensitivity(s.estimator, s.model, count, s.gamma) / spent)


def gram_scale(s: Setting, count: Numbers) -> Floats:
    """s_N, the scale of the noise in XᵀX/count."""
    return np.asarray(GRAM / (np.asarray(count) * s.epsilon * s.gram_share))


def gram_floor(s: Setting) -> Floats:
    """ℓ, the floor of the published XᵀX/n's eigenvalues: s_N·d^1.5, and at least 2/n.

    With nĜ ≥ nℓ ≥ 2 a player's leverage is h = xᵀ(nĜ)⁻¹x ≤ ‖x‖²/(nℓ) ≤ ½, and nĜ − xxᵀ ≥ nℓ − 1 ≥ 1.
    """
    least = gram_scale(s, s.n) * s.model.dimension**FLOOR_POWER
    return np.asarray(np.maximum(least, LEAST_PEOPLE / np.asarray(s.n)))
