"""Guarantees where people answer with a number."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from truthful.bounds import Model, Setting, proved
from truthful.bounds.precision import error_quantile, precisions
from truthful.check import Floats
from truthful.deterrence import (
    Deterrence,
    Typical,
    amplification,
    central_slope,
    largest_belief_gap,
    least_noise,
    likely_answers,
    mean_square_prediction,
    own_predictions,
    representative,
    share_beyond,
    tolerated_gap,
    tolerated_shift,
    typical,
)
from truthful.geometry import Geometry
from truthful.guarantees.records import (
    BELIEFS,
    COSTS,
    FEATURES,
    GIVEN_FEATURES,
    NINE_IN_TEN,
    SHADED,
    TRUTHFUL_PEERS,
    ErrorBounds,
    GuaranteeParts,
    Truthfulness,
    finite_or_none,
    shadings,
)
from truthful.noise import L2Laplace
from truthful.one_release import OneRelease
from truthful.scoring import PAYMENT_STEPS
from truthful.study import Study

#: The number of people drawn from a design to average over people.
DRAWN = 4_000
#: How much larger the lies may be that pay people whose centre is not the declared one.
WIDER = 1.5


def untruthful_because(study: Study, mechanism: OneRelease, alpha: float) -> str:
    """Say why no lie size can be promised, and what would change that."""
    if not mechanism.score_weight > 0:
        return "score_weight is 0, so payments do not depend on answers"
    if alpha == 0 and math.isinf(study.costs.upper_quantile(0.0)):
        return "absent_share 0 needs a bound on every privacy cost, and the declared law has none"
    return inaccurate_because(study)


def inaccurate_because(study: Study) -> str:
    """Say why no accuracy of an estimate from observed features can be promised, and what would change that."""
    if not model(study).least_eigenvalue > 0:
        return "the study does not say how spread out its features are; declare design.least_eigenvalue"
    return "too few players for this epsilon: noise could drown the features' second moments"


def promise_numbers(study: Study, mechanism: OneRelease, s: Setting) -> GuaranteeParts:
    players, geometry = int(s.n), s.geometry
    lie = float(proved.lie_size(s))
    person = typical(study, mechanism, players, geometry)
    undeterred, in_answer = _undeterred_share(study, mechanism, players, lie, person, geometry)
    return GuaranteeParts(
        Truthfulness(
            lie=finite_or_none(lie),
            slack=finite_or_none(float(proved.truthfulness(s))),
            share=share_beyond(study, person, lie),
            slope=central_slope(study, person),
            lie_in_answer=finite_or_none(in_answer * study.response_unit),
            probability=1 - float(s.beta),
            assumptions=(TRUTHFUL_PEERS, BELIEFS, FEATURES if geometry is None else GIVEN_FEATURES, COSTS),
            undeterred=undeterred,
            typical_length=person.length,
            typical_noise=person.scale,
            **_number_shading(study, mechanism, person),
            **_number_tolerances(study, s, person, lie),
        ),
        float(proved.joining_threshold(s)),
        (float(proved.budget(s)), float(proved.budget_cap(s)), float(proved.likely_budget(s))),
        _error_bounds(study, mechanism, s),
    )


def _error_bounds(study: Study, mechanism: OneRelease, s: Setting) -> ErrorBounds:
    noise = L2Laplace(study.dimension, mechanism.scale(study.beliefs))
    squares = float(proved.accuracy(s)), float(proved.prediction_error(s)), None
    if not math.isfinite(squares[0]):
        return ErrorBounds(squares, (math.inf, math.inf, None), ())
    coefficients, of_people = (error_quantile(study, s, noise, predictions) for predictions in (False, True))
    return ErrorBounds(squares, (coefficients, of_people, None), precisions(study, s, noise))


def _undeterred_share(
    study: Study,
    mechanism: OneRelease,
    players: int,
    lie: float,
    person: Typical,
    geometry: Geometry | None,
) -> tuple[float, float]:
    """The share of answers that nothing deters, and the size beyond which lies of nine people in ten are deterred."""
    if not math.isfinite(lie):
        return 1.0, math.inf
    scale, Sigma = mechanism.scale(study.beliefs), study.second_moments
    if geometry is not None:
        r, tau = geometry.people
        people = representative(r, tau * (geometry.players / players))
    elif study.assigned and Sigma is not None:
        X = study.normalise(study.sample_features(np.random.default_rng(0), DRAWN), DRAWN)
        along = np.linalg.norm(np.linalg.solve(Sigma, X.T), axis=0)
        people = representative(np.linalg.norm(X, axis=1), along / max(1, players - 1))
    else:  # of these features only the spread is known
        people = np.array([person.length]), np.array([person.scale * person.length / scale])
    found, clip = Deterrence(study.beliefs, *people), mechanism.clip if mechanism.clipped else None
    return found.undeterred_share(lie, clip, scale), found.furthest(lie, clip, scale, NINE_IN_TEN)


def _number_shading(study: Study, mechanism: OneRelease, person: Typical) -> dict[str, Any]:
    """b·(q(y) − q(0))²: whoever gives the expected answer expects the others to predict q(0) = 0."""
    off = np.array(SHADED) * 2 * study.half_range
    costs = mechanism.score_weight * np.square(own_predictions(study, person, off))
    earned = mechanism.score_weight * mean_square_prediction(study, person)
    return {
        "typical_pay": float(mechanism.base(np.array(person.length))) + earned,
        "shading": shadings(off * study.response_unit, costs),
    }


def _number_tolerances(study: Study, s: Setting, person: Typical, lie: float) -> dict[str, Any]:
    """How wrong beliefs may be: as declared, or else if lies half as large again are let pay."""
    if not math.isfinite(lie):
        return {}
    beliefs, answers = study.beliefs, likely_answers(study, person.length)
    moved = amplification(beliefs, person.length, person.scale, person.curve)
    if study.tolerance:
        allowed, gap, shift = lie, float(np.asarray(s.belief_gap)), study.tolerance
        slack = proved.truthfulness(s)
    else:
        allowed = WIDER * lie
        gap = float(tolerated_gap(lie, allowed, float(proved.gap(s))))
        slack = proved.truthfulness(s.at(belief_gap=gap))
        shift = tolerated_shift(
            beliefs, person.length, person.scale, person.curve, answers, gap, 2 * study.half_range
        )
    return {
        "centre_tolerance": shift * study.response_unit,
        "centre_lie": allowed,
        "centre_slack": finite_or_none(float(slack)),
        "centre_amplification": moved,
        # Her answer may be further, by the shift, from her own centre than from the declared one.
        "slope_tolerance": gap / (float(answers[-1]) + shift),
    }


def belief_gap(study: Study, mechanism: OneRelease, players: int, geometry: Geometry | None) -> float:
    """Γ: the most that a centre off by the declared tolerance changes anybody's expectation; at most the tolerance."""
    shift = study.tolerance
    if not shift or not mechanism.clipped:
        return shift
    if geometry is None:
        lengths, noise = least_noise(study)
        noise = noise / max(1, players - 1)
    else:
        lengths, noise = geometry.people
        noise = noise * (geometry.players / players)
    scale = mechanism.scale(study.beliefs)
    return largest_belief_gap(study.beliefs, lengths, noise, shift, mechanism.clip, scale)


def setting(
    study: Study,
    mechanism: OneRelease,
    players: int,
    alpha: float,
    beta: float,
    geometry: Geometry | None = None,
) -> Setting:
    """The setting for the bounds: the study's model, and the mechanism's numbers."""
    return Setting(
        model=model(study),
        costs=study.costs,
        n=players,
        epsilon=mechanism.epsilon,
        alpha=alpha,
        beta=beta,
        a=mechanism.base_payment,
        b=mechanism.score_weight,
        gram_share=mechanism.gram_share,
        estimator=mechanism.estimator,
        rule=mechanism.rule,
        payments=mechanism.payments,
        privacy=study.declared.costs.privacy,
        rounding=1 / PAYMENT_STEPS,
        clip=mechanism.clip,
        geometry=geometry,
        belief_gap=belief_gap(study, mechanism, players, geometry),
    )


@lru_cache(maxsize=64)
def model(study: Study) -> Model:
    """The declared beliefs and design, as used by the bounds.

    tr Cov(Axy) = θᵀ(Σ_w E[(w·x)² x xᵀ] − ΣA²Σ)θ + σ² tr AΣA, w the columns of A: largest at an eigenvector.
    """
    d, Sigma, beliefs, design = study.dimension, study.second_moments, study.beliefs, study.design
    common: dict[str, Any] = {
        "dimension": d,
        "radius": beliefs.radius,
        "noise_bound": beliefs.noise_bound,
        "noise_variance": beliefs.noise_variance,
        "least_eigenvalue": study.least_eigenvalue or 0.0,
        "prior_square": d * beliefs.prior.variance(d),
        "mean_square": beliefs.prior.variance(d) * study.mean_square_norm,
        "mean_square_norm": study.mean_square_norm,
    }
    if Sigma is None:
        return Model(**common)
    inverse: Floats = np.linalg.inv(Sigma).astype(np.float64)
    R2, sigma2 = beliefs.radius**2, beliefs.noise_variance
    values, vectors = np.linalg.eigh(Sigma)
    root: Floats = vectors / np.sqrt(values) @ vectors.T
    return Model(
        **common,
        greatest_eigenvalue=min(1.0, float(values[-1])),
        inverse_square=float(np.sum(inverse**2)),
        inverse_trace=float(np.trace(inverse)),
        sampling_variance=R2 * _spread(study, inverse, np.eye(d)) + sigma2 * float(np.trace(inverse)),
        prediction_variance=R2 * _spread(study, root, Sigma) + sigma2 * d,
        direction_variance=_direction_variance(study, inverse),
        reach=design.reach,
        leverage=design.leverage,
        ball=design.kind == "unit-ball",
    )


def _spread(study: Study, A: Floats, mean: Floats) -> float:
    """The largest eigenvalue of Σ_w E[(w·x)² x xᵀ] − mean, w the columns of A."""
    total = sum(study.weighted_moments(w) for w in A.T) - mean
    return max(0.0, float(np.linalg.eigvalsh(total)[-1]))


def _direction_variance(study: Study, inverse: Floats) -> float:
    """sup over unit e and ‖θ‖ ≤ R of Var(e·Σ⁻¹xy) ≤ (R² + σ²)·λ_max(Σ⁻¹), as ‖x‖ ≤ 1; sharp form for the ball."""
    d, R2, sigma2 = study.dimension, study.beliefs.radius**2, study.beliefs.noise_variance
    if study.design.kind == "unit-ball":
        return (d + 2) * sigma2 + R2 * (3 * (d + 2) / (d + 4) - 1)
    return (R2 + sigma2) * float(np.linalg.eigvalsh(inverse)[-1])
