"""What public numbers alone say of payments: what lies would earn, and how payments spread.

Nothing here sees a record, a payment or a total. Those are functions of raw answers, and a public page may hold none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from truthful.charts import Lie, Lies
from truthful.check import Floats
from truthful.guarantees import Truthfulness
from truthful.mechanism import peer_curve
from truthful.moments import grid_features, grid_responses
from truthful.one_release import OneRelease
from truthful.one_release_payments import paymaster
from truthful.payments import lengths, noise_along, payable, peer_prediction
from truthful.plan import Plan
from truthful.release import AnyRelease, ReleaseOfHalves
from truthful.slope import Typical, typical

POINTS, DRAWS = 101, 2000


def lies(plan: Plan, players: int, promised: Truthfulness) -> Lies:
    """The expected payment of a typical player against her lie: features of typical length, and the truth y = 0.

    Her peers tell the truth, so E[p | x, y] = q(x, y), and payments are affine in p: a lie earns rule(q(y), q(y′)).
    Lies beyond R‖x‖ + M, which the beliefs exclude, are moved there. D in answers is the guarantees' own.
    """
    study, mechanism = plan.study, plan.number_mechanism
    beliefs, unit = study.beliefs, study.response_unit
    r, along, curve = _typical(plan, players, promised)
    y = np.linspace(0, beliefs.radius * r + beliefs.noise_bound, POINTS)
    q = beliefs.prediction(r, y, curve, along)
    base = float(mechanism.base(np.array(r))) if isinstance(mechanism, OneRelease) else mechanism.base_payment
    paid = mechanism.scoring(q[0], q, a=base, b=mechanism.score_weight)
    moved, D = np.abs(q - q[0]), _promised_lie(promised, beliefs.radius)
    points = tuple(
        Lie(*values)
        for values in zip((unit * y).tolist(), (unit * moved).tolist(), paid.tolist(), strict=True)
    )
    shown = Lies(points, None if D is None else unit * D, None, study.currency)
    return replace(shown, threshold=_in_answers(shown, promised.lie_in_answer))


def _typical(plan: Plan, players: int, promised: Truthfulness) -> Typical:
    """Someone of typical features: as the guarantees have it, or with halves as the design has it."""
    mechanism, length, noise = plan.number_mechanism, promised.typical_length, promised.typical_noise
    if isinstance(mechanism, OneRelease) and length is not None and noise is not None:
        return Typical(length, noise, mechanism.curve(plan.study.beliefs))
    return typical(plan.study, mechanism, players)


def _promised_lie(promised: Truthfulness, radius: float) -> float | None:
    """D, if it promises anything: predictions differ by 2R at most."""
    if promised.lie is None or promised.slack is None or not promised.lie < 2 * radius:
        return None
    return promised.lie


def _in_answers(shown: Lies, promised: float | None) -> float | None:
    """D in answers, where it is true of her: beyond central reports predictions may follow answers less steeply."""
    if shown.D is None or promised is None or not promised < shown.curve[-1].size:
        return None
    return promised if shown.at(promised).moved >= shown.D else None


def predicted_payments(release: AnyRelease, plan: Plan) -> Floats | None:
    """Payments of invented people: features from the design, answers from the published estimate and the noise law.

    Always the same people. None if the study does not say how features are distributed, or too little is published.
    """
    study = plan.study
    if study.design.kind not in ("uniform", "unit-ball"):
        return None
    rng, beliefs = np.random.default_rng(0), study.beliefs
    theta = np.array(release.theta)
    theta *= min(1.0, beliefs.radius / max(float(np.linalg.norm(theta)), 1e-300))

    def invented(count: int) -> tuple[Floats, Floats]:
        X = study.normalise(study.sample_features(rng, count), count)
        return X, X @ theta + beliefs.noise.sample(rng, count)

    if isinstance(release, ReleaseOfHalves):
        return _paid_by_halves(release, plan, invented)
    estimate, mechanism = release.estimate(), release.mechanism(study)
    if estimate is None or not isinstance(mechanism, OneRelease):
        return None
    X, y = invented(DRAWS)
    master = paymaster(mechanism, beliefs, estimate, DRAWS)
    return master.scored(grid_features(X), grid_responses(y, beliefs.response_bound)).payment


def _paid_by_halves(
    release: ReleaseOfHalves, plan: Plan, invented: Callable[[int], tuple[Floats, Floats]]
) -> Floats:
    beliefs, mechanism, paid = plan.study.beliefs, release.mechanism(plan.study), []
    for group in (0, 1):
        X, y = invented(DRAWS // 2)
        r, peer = lengths(X), release.peer(group)
        curve = peer_curve(mechanism, beliefs, release.groups[1 - group])
        p = peer_prediction(mechanism, beliefs, peer, X, r)
        q = beliefs.prediction(r, y, curve, noise_along(peer, X, r))
        paid.append(payable(mechanism, beliefs, p, q))
    return np.concatenate(paid)
