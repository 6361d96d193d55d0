"""Guarantees where people are also asked what the others will say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from truthful.asked_release import SCALE, AskedRelease, largest_gain, largest_loss
from truthful.bounds.asked_bounds import AskedSetting, advantage, gap, lie_size
from truthful.bounds.share_bounds import ROUNDING
from truthful.errors import InputError
from truthful.geometry import Geometry
from truthful.guarantees.records import (
    COSTS,
    GIVEN_FEATURES,
    SHADED,
    TRUTHFUL_PEERS,
    GuaranteeParts,
    Truthfulness,
    shadings,
    step_lies,
)
from truthful.guarantees.share_guarantees import error_bounds
from truthful.study import Study
from truthful.study.credibility import LevelBeliefs

AGREED = (
    "people agree on what they expect of the others, whatever it is, and take others to expect what they do; one's own "
    "answer moves it as declared, and beliefs and answers have tails no heavier than a normal law's"
)
AGREED_STRICT = (
    "people agree on what they expect of the others, whatever it is, and expect more yes if they would say yes "
    "themselves"
)


def promise_predictions(
    study: Study, mechanism: AskedRelease, s: AskedSetting, payable: int, precise: bool
) -> GuaranteeParts:
    truth = (_strict_truth if s.beliefs.strict else _asked_truth)(study, mechanism, s)
    average, most = (payable * each for each in _asked_payments(s, mechanism))
    least = max(0.0, _least_expected(s, mechanism) - ROUNDING)
    joining = least / study.privacy_cost(mechanism.epsilon)
    return GuaranteeParts(
        truth, joining, (average, most, math.inf), error_bounds(study, mechanism, s, precise)
    )


def asked_setting(
    study: Study, mechanism: AskedRelease, players: int, alpha: float, beta: float, geometry: Geometry
) -> AskedSetting:
    """The setting for bounds on answers with predictions."""
    if study.levels is None:
        raise InputError("The study does not ask what the others will say.")
    return AskedSetting(
        study=study,
        beliefs=study.levels,
        geometry=geometry,
        n=players,
        alpha=np.array([alpha]),
        epsilon=np.array([mechanism.epsilon]),
        beta=beta,
        ratio=mechanism.ratio,
        clip=np.array([mechanism.clip]),
        judged=math.isfinite(mechanism.plausible[1]),
        tolerance=study.level_tolerance,
    )


def payable_to_all(mechanism: AskedRelease, slopes: object) -> bool:
    """Whether base payments cover all that scores can take away at these slopes, so that nobody can owe."""
    lost = mechanism.score_weight * largest_loss(mechanism.rule, np.asarray(slopes), mechanism.clip)
    return bool(lost.max() <= mechanism.base_payment * (1 + 1e-9))


def _asked_payments(s: AskedSetting, mechanism: AskedRelease) -> tuple[float, float]:
    """Upper bounds on the average and the largest payment."""
    base, asked = mechanism.base_payment, mechanism.prediction_payment
    gained = largest_gain(mechanism.rule, s.believed[:, :2], mechanism.clip)
    head = base + mechanism.score_weight * float(gained.max()) + asked
    average = base + asked + float(s.alpha[0]) * (head - base)
    return head if s.beliefs.strict else min(average, head), head


def _least_expected(s: AskedSetting, mechanism: AskedRelease) -> float:
    """A lower bound on a truthful person's average pay, without her prediction's.

    For numbers: a − b(s²E[t²] + 2s(1−s)√(E[t²]E[Δ²])), t = y − p. For yes and no: a.
    """
    a, b = mechanism.base_payment, mechanism.score_weight
    if s.beliefs.strict:
        return a
    slope, v = float(s.believed[:, 1].max()), float(s.believed[:, 3].max())
    noise = (s.beliefs.dimension + 2) * (float(s.scale[0]) * s.worst[0]) ** 2
    apart = s.beliefs.variance * (1 + s.worst[1]) + v + noise
    square = min(mechanism.clip**2, v + noise)
    return max(0.0, a - b * (slope**2 * apart + 2 * slope * (1 - slope) * math.sqrt(apart * square)))


def _asked_truth(study: Study, mechanism: AskedRelease, s: AskedSetting) -> Truthfulness:
    """The size from which no lie pays; for ratings, the number of steps."""
    lie, b, k = (
        float(lie_size(s, mechanism.score_weight)[0, 0]),
        mechanism.score_weight,
        s.beliefs.slope,
    )
    worth, saved, off = study.privacy_cost(mechanism.epsilon), float(s.saved[0, 0]), gap(s)[:, 0, 0]
    steps, earned, told = None, None, lie
    if study.shares is not None and math.isfinite(lie):
        levels = study.shares.levels
        step = SCALE / (levels - 1)
        least = math.ceil(lie / step * (1 - 1e-9))
        if least < levels:
            steps, told = least, least * SCALE / (levels - 1)
            moved = s.believed[:, 0] * steps * step
            earned = b * float((moved**2 - 2 * moved * off).min())
    promised = math.isfinite(told) and told < SCALE
    return Truthfulness(
        slack=b * (float(off.max()) ** 2) + saved if promised else None,
        share=float(study.costs.cdf(max(0.0, saved - ROUNDING) / worth)) if promised else 0.0,
        slope=k,
        lie_in_answer=told * study.response_unit if promised else None,
        probability=1 - s.beta,
        assumptions=(TRUTHFUL_PEERS, AGREED, GIVEN_FEATURES, COSTS),
        steps=steps,
        gain=earned,
        **_asked_shading(study, mechanism, s.beliefs),
        centre_tolerance=k * told / (2 * (1 - k)) * study.response_unit if promised else None,
    )


def _strict_truth(study: Study, mechanism: AskedRelease, s: AskedSetting) -> Truthfulness:
    """For yes and no: by how much the truth earns more than the other answer."""
    found, worth = float(advantage(s)[0, 0]), study.privacy_cost(mechanism.epsilon)
    earned = 2 * mechanism.score_weight * found / mechanism.clip
    paid = earned >= float(s.saved[0, 0]) * (1 - 1e-9)
    return Truthfulness(
        slope=s.beliefs.slope,
        share=float(study.costs.cdf(max(0.0, earned - ROUNDING) / worth)) if paid else 0.0,
        probability=1 - s.beta,
        assumptions=(TRUTHFUL_PEERS, AGREED_STRICT, GIVEN_FEATURES, COSTS),
        steps=1 if paid else None,
        gain=earned if paid else None,
        **_asked_shading(study, mechanism, s.beliefs),
        centre_tolerance=found * study.response_unit if paid else None,
    )


def _asked_shading(study: Study, mechanism: AskedRelease, beliefs: LevelBeliefs) -> dict[str, Any]:
    """b·s²ℓ² for numbers and ratings; for yes and no 2b·E[yΔ]/C, E[yΔ] = 4v(1 − k) with v and k those of shares."""
    b, pay = mechanism.score_weight, mechanism.base_payment + mechanism.prediction_payment
    if not beliefs.strict or beliefs.shares is None:
        levels = None if beliefs.shares is None else beliefs.shares.levels
        steps = np.array(SHADED) if levels is None else step_lies(levels)
        unit = SCALE * study.response_unit if levels is None else levels - 1
        return {
            "typical_pay": pay,
            "shading": shadings(steps * unit, b * (beliefs.slope * SCALE * steps) ** 2),
        }
    v, middle = beliefs.sure**2 / 4, (beliefs.shares.low + beliefs.shares.high) / 2
    surprise = 4 * v * (1 - v / (middle * (1 - middle))) / mechanism.clip
    return {"typical_pay": pay + b * surprise, "shading": shadings(np.ones(1), np.array([2 * b * surprise]))}
