"""What public numbers alone say of payments: what lies would earn, and how payments spread.

Nothing here sees a record, a payment or a total. Those are functions of raw answers, and a public page may hold none.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from truthful.charts import Lie, Lies
from truthful.check import Floats
from truthful.guarantees import Truthfulness
from truthful.mechanism import peer_curve
from truthful.payments import lengths, noise_along, payable, peer_prediction
from truthful.plan import Plan
from truthful.release import Release
from truthful.slope import stretch

POINTS, DRAWS = 101, 2000


def lies(plan: Plan, players: int, promised: Truthfulness) -> Lies:
    """The expected payment of a typical player against her lie: features of typical length, and the truth y = 0.

    Her peers tell the truth, so E[p | x, y] = q(x, y), and payments are affine in p: a lie earns rule(q(y), q(y′)).
    Lies beyond R‖x‖ + M, which the beliefs exclude, are moved there. D in answers is the guarantees' own.
    """
    study, mechanism, m = plan.study, plan.mechanism, max(1, players // 2)
    beliefs, unit, r = study.beliefs, study.response_unit, math.sqrt(study.mean_square_norm)
    scale = mechanism.half_estimator(beliefs).noise_scale(m, mechanism.epsilon_peer)
    along = scale * stretch(study, mechanism.peers)
    y = np.linspace(0, beliefs.radius * r + beliefs.noise_bound, POINTS)
    q = beliefs.prediction(r, y, peer_curve(mechanism, beliefs, m), along)
    paid = mechanism.scoring(q[0], q, a=mechanism.base_payment, b=mechanism.score_weight)
    moved, D = np.abs(q - q[0]), _promised_lie(promised, beliefs.radius)
    curve = tuple(
        Lie(*values)
        for values in zip((unit * y).tolist(), (unit * moved).tolist(), paid.tolist(), strict=True)
    )
    shown = Lies(curve, None if D is None else unit * D, None, study.currency)
    return replace(shown, threshold=_in_answers(shown, promised.lie_in_answer))


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


def predicted_payments(release: Release, plan: Plan) -> Floats | None:
    """Payments of invented people: features from the design, answers from the published estimate and the noise law.

    Always the same people. None if the study does not say how features are distributed.
    """
    study, mechanism = plan.study, plan.mechanism
    if study.design.kind not in ("uniform", "unit-ball"):
        return None
    rng, beliefs = np.random.default_rng(0), study.beliefs
    theta = np.array(release.theta)
    theta *= min(1.0, beliefs.radius / max(float(np.linalg.norm(theta)), 1e-300))
    paid = []
    for group in (0, 1):
        X = study.normalise(study.sample_features(rng, DRAWS // 2), DRAWS // 2)
        y, r, peer = X @ theta + beliefs.noise.sample(rng, len(X)), lengths(X), release.peer(group)
        curve = peer_curve(mechanism, beliefs, release.groups[1 - group])
        p = peer_prediction(mechanism, beliefs, peer, X, r)
        q = beliefs.prediction(r, y, curve, noise_along(peer, X, r))
        paid.append(payable(mechanism, beliefs, p, q))
    return np.concatenate(paid)
