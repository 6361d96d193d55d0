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
from truthful.mechanism import Mechanism
from truthful.study import Study

TRUTHFUL_PEERS = "the other players tell the truth, all but the absent share"
BELIEFS = "answers follow the declared linear model, prior and noise"
FEATURES = "features follow the declared design"
COSTS = "privacy costs follow the declared law"


@dataclass(frozen=True)
class Privacy:
    """ε-joint differential privacy, for every data set, whatever anybody does."""

    epsilon: float
    probability: float = 1.0
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Truthfulness:
    """No lie that moves the own prediction by more than `lie` pays; no lie at all gains more than `slack`."""

    lie: float | None
    slack: float | None
    probability: float
    assumptions: tuple[str, ...] = (TRUTHFUL_PEERS, BELIEFS, FEATURES, COSTS)


@dataclass(frozen=True)
class Accuracy:
    """Mean squared error of the coefficients (normalised), and the same as an error in raw response units."""

    mean_squared_error: float | None
    rmse: float | None
    probability: float
    assumptions: tuple[str, ...] = (TRUTHFUL_PEERS, BELIEFS, FEATURES)


@dataclass(frozen=True)
class Participation:
    """Taking part pays, in expectation, for everybody whose privacy cost is at most the threshold."""

    share: float | None
    cost_threshold: float | None
    probability: float = 1.0
    assumptions: tuple[str, ...] = (TRUTHFUL_PEERS, BELIEFS, FEATURES, COSTS)


@dataclass(frozen=True)
class Budget:
    """What all payments together cost: at most `cap` for certain (never-negative payments), less on average."""

    expected: float | None
    cap: float | None
    probability: float = 1.0
    assumptions: tuple[str, ...] = ()


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
        return {name: {**group, "assumptions": list(group["assumptions"])} for name, group in asdict(self).items()}


def guarantees(study: Study, mechanism: Mechanism, players: int, alpha: float, beta: float) -> Guarantees:
    """What this mechanism promises to and of so many players, an `alpha` share of whom may misreport."""
    a, b, R = mechanism.base_payment, mechanism.score_weight, study.beliefs.radius
    cost = study.privacy_cost(mechanism.epsilon)
    tau = study.costs.threshold(n=players, alpha=alpha, beta=beta)
    gap = _gap(study, mechanism, players, alpha)
    error = _error(study, mechanism, players, alpha, beta)
    joining = proved.joining_threshold(a, b, gap, cost, mechanism.rule) if math.isfinite(gap) else None
    gain = mechanism.scoring.gain(R)
    capped = mechanism.payments == "never-negative"
    return Guarantees(
        Privacy(mechanism.epsilon),
        Truthfulness(
            _finite(proved.lie_size(gap, tau, cost, b)),
            _finite(proved.truth_slack(gap, tau, cost, b)),
            1 - beta,
        ),
        Accuracy(_finite(error), _finite(study.response_unit * math.sqrt(error)), 1 - 3 * beta),
        Participation(None if joining is None else float(study.costs.cdf(joining)), joining),
        Budget(
            _finite(_expected_budget(study, mechanism, players, gap)),
            players * (a + b * gain) if capped else None,
        ),
    )


def _gap(study: Study, mechanism: Mechanism, players: int, alpha: float) -> float:
    """The largest distance between own prediction and expected peer prediction, for a peer half of the players."""
    design, response, m = design_constants(study), response_constants(study), max(1, players // 2)
    clipped = mechanism.payments == "never-negative"
    if not design.least_eigenvalue > 0:
        return math.inf
    if mechanism.peers == "known-design":
        return proved.known_design_gap(design, response.bound, m, alpha, clipped)
    if mechanism.peers == "ridge-free":
        return proved.ridge_gap(design, response, m, mechanism.peer_gamma, alpha, clipped)
    peer = mechanism.half_estimator(study.beliefs)
    if not isinstance(peer, NoisyStatistics):
        raise TypeError(f"No gap is known for the peer estimator {mechanism.peers!r}.")
    epsilon = mechanism.epsilon_peer
    return proved.noisy_statistics_gap(
        design, response, m, peer.gram_scale(m, epsilon), peer.eigenvalue_floor(m, epsilon), alpha, clipped
    )


def _error(study: Study, mechanism: Mechanism, players: int, alpha: float, beta: float) -> float:
    """Mean squared error of the published coefficients, in normalised units."""
    design, response = design_constants(study), response_constants(study)
    estimator, epsilon = mechanism.public_estimator(study.beliefs), mechanism.epsilon_public
    scale = estimator.noise_scale(players, epsilon)
    if not design.least_eigenvalue > 0:
        return math.inf
    if mechanism.estimator == "known-design":
        return proved.known_design_error(design, response, players, float(epsilon), alpha)
    if isinstance(estimator, NoisyStatistics):
        gram_scale = estimator.gram_scale(players, epsilon)
        return proved.noisy_statistics_error(design, response, players, scale, gram_scale, alpha, beta)
    ball = mechanism.estimator == "ridge-ball"
    return proved.ridge_error(design, response, players, scale, mechanism.gamma, alpha, beta, ball)


def _expected_budget(study: Study, mechanism: Mechanism, players: int, gap: float) -> float:
    """E[2pq − q²] = E[q²] + 2E[(E[p] − q)q] ≤ E[q²] + 2·gap·E|q| for a truthful player, n times, plus a.

    E[q²] ≤ E[(θ·x)²] = (variance of θ along x)·E‖x‖², since |ψ(u)| ≤ |u| and q is a conditional mean of ψ.
    """
    a, b = mechanism.base_payment, mechanism.score_weight
    mean_square = study.beliefs.prior.variance(study.dimension) * study.mean_square_norm
    if mechanism.rule == "quadratic":
        return players * (a + b * (mean_square + 2 * gap * math.sqrt(mean_square)))
    # Brier: the extra term −b·p has mean zero under a centred prior, up to the gap.
    return players * (a + b * (mean_square + 2 * gap * math.sqrt(mean_square) + gap))


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
