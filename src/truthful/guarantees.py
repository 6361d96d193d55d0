"""The five guarantees of a plan or a release, always in this order: privacy, truthfulness, accuracy,
participation, budget. Each says what is guaranteed, with what probability and under which assumptions.

All of it follows from public numbers. A number that cannot be promised is None, never a guess.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from truthful.bounds import proved
from truthful.check import Floats
from truthful.estimators import NoisyStatistics
from truthful.estimators.shrinkage import RELATIVE_ERROR
from truthful.mechanism import Mechanism
from truthful.payments import PAYMENT_STEPS
from truthful.slope import central_slope
from truthful.study import Study

TRUTHFUL_PEERS = "players tell the truth, all but those with the highest privacy costs (the absent share)"
BELIEFS = "answers follow the declared linear model, prior and noise"
FEATURES = "features are drawn independently from the declared design"
COSTS = "privacy costs follow the declared law"

#: Events of probability β that an accuracy needs: few liars, the least eigenvalue, the greatest or the noise in XᵀX.
EVENTS = {"known-design": 1, "ridge-free": 2, "ridge-ball": 3, "noisy-statistics": 3}


@dataclass(frozen=True)
class Privacy:
    """ε-joint differential privacy, for every data set, whatever anybody does."""

    epsilon: float
    probability: float = 1.0
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Truthfulness:
    """No lie that moves the own prediction by more than `lie` pays; no lie at all gains more than `slack`.

    So it is for all players whose privacy cost is at most a threshold: all but the absent share, with this probability.
    `slope` is the least ∂q/∂y over the central 90 % of reports at features of typical length, and `lie_in_answer` what
    `lie` is there in raw units of the answer; None where the slope is 0, and lies in the answer are free.
    """

    lie: float | None
    slack: float | None
    slope: float
    lie_in_answer: float | None
    probability: float
    assumptions: tuple[str, ...] = (TRUTHFUL_PEERS, BELIEFS, FEATURES, COSTS)


@dataclass(frozen=True)
class Accuracy:
    """Mean squared error of the coefficients (normalised), and the same as an error in raw response units.

    ‖x‖ ≤ 1, so the root of the first, in raw units, bounds the root mean square error of every prediction.
    """

    mean_squared_error: float | None
    rmse: float | None
    probability: float
    assumptions: tuple[str, ...] = (TRUTHFUL_PEERS, BELIEFS, FEATURES, COSTS)


@dataclass(frozen=True)
class Participation:
    """Taking part pays, in expectation, for everybody whose privacy cost is at most the threshold: for this share."""

    share: float | None
    cost_threshold: float | None
    probability: float = 1.0
    assumptions: tuple[str, ...] = (TRUTHFUL_PEERS, BELIEFS, FEATURES, COSTS)


@dataclass(frozen=True)
class Budget:
    """What all payments together cost: never more than `cap`, whatever anybody does; on average at most `expected`.

    The assumptions are those of the average. `cap` needs none, and is there if payments are never negative.
    """

    expected: float | None
    cap: float | None
    probability: float = 1.0
    assumptions: tuple[str, ...] = (TRUTHFUL_PEERS, BELIEFS, FEATURES, COSTS)


@dataclass(frozen=True)
class Guarantees:
    """The five, in their order."""

    privacy: Privacy
    truthfulness: Truthfulness
    accuracy: Accuracy
    participation: Participation
    budget: Budget

    def record(self) -> dict[str, Any]:
        """As written in plans and releases."""
        return {
            name: {**group, "assumptions": list(group["assumptions"])} for name, group in asdict(self).items()
        }


def guarantees(study: Study, mechanism: Mechanism, players: int, alpha: float, beta: float) -> Guarantees:
    """What this mechanism promises to and of so many players, an `alpha` share of whom may misreport."""
    b, cost = mechanism.score_weight, study.privacy_cost(mechanism.epsilon)
    tau = study.costs.threshold(n=players, alpha=alpha, beta=beta)
    gap = _gap(study, mechanism, players, alpha)
    error = _error(study, mechanism, players, alpha, beta)
    lie, slope = proved.lie_size(gap, tau, cost, b), central_slope(study, mechanism, players)
    return Guarantees(
        Privacy(mechanism.epsilon),
        Truthfulness(
            lie=_finite(lie),
            slack=_finite(proved.truth_slack(gap, tau, cost, b)),
            slope=slope,
            lie_in_answer=_finite(lie / slope * study.response_unit) if slope > 0 else None,
            probability=1 - beta,
        ),
        Accuracy(
            _finite(error),
            _finite(study.response_unit * math.sqrt(error)),
            max(0.0, 1 - EVENTS[mechanism.estimator] * beta),
        ),
        _participation(study, mechanism, gap, cost),
        _budget(study, mechanism, players, gap, alpha),
    )


def untruthful_because(study: Study, mechanism: Mechanism, alpha: float) -> str:
    """Why no size of lies can be promised not to pay, and what would change that."""
    if not mechanism.score_weight > 0:
        return "score_weight is 0, so payments do not depend on answers"
    if alpha == 0 and math.isinf(study.costs.upper_quantile(0.0)):
        return "absent_share 0 needs a bound on every privacy cost, and the declared law has none"
    return inaccurate_because(study)


def inaccurate_because(study: Study) -> str:
    """Why no accuracy of an estimate from observed features can be promised, and what would change that."""
    if not design_constants(study).least_eigenvalue > 0:
        return "the study does not say how spread out its features are; declare design.least_eigenvalue"
    return "too few players for this epsilon: noise could drown the features' second moments"


def _gap(study: Study, mechanism: Mechanism, players: int, alpha: float) -> float:
    """The largest distance between own prediction and expected peer prediction, for a truthful player.

    She has n − 1 others, and all αn liars are among them: a share αn/(n − 1) of the others.
    """
    design, response = design_constants(study), response_constants(study)
    clipped, alpha = mechanism.payments == "never-negative", min(1.0, alpha * players / max(1, players - 1))
    if mechanism.peers == "known-design":
        return proved.known_design_gap(design, response, players, alpha, clipped)
    if mechanism.peers == "ridge-free":
        gap = proved.ridge_gap(design, response, players, mechanism.peer_gamma, alpha, clipped)
        # The factor 1 − γκ of the curve that players are scored against is known up to this.
        return gap + RELATIVE_ERROR * response.radius
    peer, m = mechanism.half_estimator(study.beliefs), proved.least_half(players)
    if not isinstance(peer, NoisyStatistics):
        raise TypeError(f"No gap is known for the peer estimator {mechanism.peers!r}.")
    scale, floor = (f(m, mechanism.epsilon_peer) for f in (peer.gram_scale, peer.eigenvalue_floor))
    return proved.noisy_statistics_gap(design, response, players, scale, floor, alpha, clipped)


def _error(study: Study, mechanism: Mechanism, players: int, alpha: float, beta: float) -> float:
    """Mean squared error of the published coefficients, in normalised units."""
    design, response = design_constants(study), response_constants(study)
    estimator, epsilon = mechanism.public_estimator(study.beliefs), mechanism.epsilon_public
    scale = estimator.noise_scale(players, epsilon)
    if mechanism.estimator == "known-design":
        return proved.known_design_error(design, response, players, scale, alpha)
    if isinstance(estimator, NoisyStatistics):
        gram, floor = (f(players, epsilon) for f in (estimator.gram_scale, estimator.eigenvalue_floor))
        return proved.noisy_statistics_error(design, response, players, scale, gram, floor, alpha, beta)
    ball = mechanism.estimator == "ridge-ball"
    return proved.ridge_error(design, response, players, scale, mechanism.gamma, alpha, beta, ball)


def _participation(study: Study, mechanism: Mechanism, gap: float, privacy_cost: float) -> Participation:
    """Who gains by taking part. A payment is rounded down, by less than one step."""
    a, b = mechanism.base_payment - 1 / PAYMENT_STEPS, mechanism.score_weight
    threshold = proved.joining_threshold(a, b, gap, privacy_cost, mechanism.rule)
    return Participation(float(study.costs.cdf(threshold)), _finite(threshold))


def _budget(study: Study, mechanism: Mechanism, players: int, gap: float, alpha: float) -> Budget:
    """The cap, and the average under the declared beliefs. A score is at most p² (and |p| more for `brier`)."""
    a, b, R = mechanism.base_payment, mechanism.score_weight, study.beliefs.radius
    capped = mechanism.payments == "never-negative"
    cap = proved.budget_cap(players, a, b, mechanism.scoring.gain(R)) if capped else math.inf
    mean_square = study.beliefs.prior.variance(study.dimension) * study.mean_square_norm
    largest = mechanism.scoring.gain(R if capped or math.isinf(gap) else R + gap)
    expected = proved.expected_budget(players, a, b, gap, alpha, mean_square, largest, mechanism.rule)
    return Budget(_finite(min(expected, cap)), _finite(cap))


def response_constants(study: Study) -> proved.Response:
    """The declared beliefs, as the bounds use them."""
    beliefs = study.beliefs
    return proved.Response(beliefs.radius, beliefs.noise_bound, beliefs.noise_variance)


def design_constants(study: Study) -> proved.Design:
    """The declared design, as the bounds use it.

    tr Cov(Σ⁻¹xy) = θᵀ(Σ_w E[(w·x)² x xᵀ] − I)θ + σ² tr Σ⁻¹, w the columns of Σ⁻¹: largest at an eigenvector.
    """
    d, Sigma = study.dimension, study.second_moments
    if Sigma is None:
        return proved.Design(d, study.least_eigenvalue or 0.0)
    inverse: Floats = np.linalg.inv(Sigma).astype(np.float64)
    R2, sigma2 = study.beliefs.radius**2, study.beliefs.noise_variance
    total = sum(study.weighted_moments(w) for w in inverse.T) - np.eye(d)
    return proved.Design(
        dimension=d,
        least_eigenvalue=float(np.linalg.eigvalsh(Sigma)[0]),
        greatest_eigenvalue=min(1.0, float(np.linalg.eigvalsh(Sigma)[-1])),
        inverse_square=float(np.sum(inverse**2)),
        sampling_variance=max(0.0, R2 * float(np.linalg.eigvalsh(total)[-1]))
        + sigma2 * float(np.trace(inverse)),
        direction_variance=_direction_variance(study, inverse),
    )


def _direction_variance(study: Study, inverse: Floats) -> float:
    """sup over unit e and ‖θ‖ ≤ R of Var(e·Σ⁻¹xy) ≤ (R² + σ²)·λ_max(Σ⁻¹), as ‖x‖ ≤ 1; sharp form for the ball."""
    d, R2, sigma2 = study.dimension, study.beliefs.radius**2, study.beliefs.noise_variance
    if study.declared.design.kind == "unit-ball":
        return (d + 2) * sigma2 + R2 * (3 * (d + 2) / (d + 4) - 1)
    return (R2 + sigma2) * float(np.linalg.eigvalsh(inverse)[-1])


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
