"""Guarantees where people answer yes or no, or with a rating."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from truthful.asked_release import AskedRelease
from truthful.bounds.estimator_bounds import instruments_error
from truthful.bounds.precision import effect_quantile, error_quantile, precisions
from truthful.bounds.share_bounds import (
    ROUNDING,
    RosterSetting,
    ShareSetting,
    accuracy_setting,
    effect_error,
    gain,
    tolerated_gap,
)
from truthful.errors import InputError
from truthful.geometry import Geometry
from truthful.guarantees.records import (
    COSTS,
    GIVEN_FEATURES,
    NINE_IN_TEN,
    TRUTHFUL_PEERS,
    ErrorBounds,
    GuaranteeParts,
    Truthfulness,
    shadings,
    step_lies,
)
from truthful.noise import laplace
from truthful.share_release import ShareRelease
from truthful.study import Study
from truthful.study.credibility import Expected, ShareBeliefs

BELIEVED = {
    "yes-no": "people believe what is declared: that between {low} and {high} say yes, and more if they do themselves",
    "rating": "people believe what is declared: that the mean rating is between {low} and {high}, and higher if their "
    "own is",
}


def promise_shares(
    study: Study, mechanism: ShareRelease, s: ShareSetting, payable: int, precise: bool
) -> GuaranteeParts:
    most = payable * (mechanism.flat + mechanism.bonus)
    joining = (mechanism.flat + mechanism.bonus / 2 - ROUNDING) / study.privacy_cost(mechanism.epsilon)
    truth, errors = _share_truth(study, mechanism, s), error_bounds(study, mechanism, s, precise)
    return GuaranteeParts(truth, joining, (most, most, math.inf), errors)


def error_bounds(
    study: Study, mechanism: ShareRelease | AskedRelease, s: RosterSetting, precise: bool
) -> ErrorBounds:
    """Errors of coefficients, of predictions, and, where answers are shares, of differences."""
    accuracy, effects = accuracy_setting(s), effect_error(s)
    asked = isinstance(mechanism, AskedRelease)
    noise = laplace(mechanism.norm, study.dimension + asked, mechanism.scale(study.believed))
    error, of_people = (
        float(instruments_error(accuracy, predictions).item()) for predictions in (False, True)
    )
    squares = error, of_people, None if effects is None else float(effects.item())
    if not (precise and math.isfinite(error)):
        return ErrorBounds(squares, (math.inf, math.inf, None), ())
    setting = accuracy.at(alpha=float(s.alpha[0]), epsilon=float(s.answers_epsilon[0]))
    coefficients, of_people = (
        error_quantile(study, setting, noise, predictions) for predictions in (False, True)
    )
    quantiles = coefficients, of_people, effect_quantile(study, s, noise)
    return ErrorBounds(squares, quantiles, precisions(study, setting, noise))


def share_setting(
    study: Study, mechanism: ShareRelease, players: int, alpha: float, beta: float, geometry: Geometry
) -> ShareSetting:
    """The setting for bounds on shares."""
    if study.shares is None:
        raise InputError("The study asks for numbers.")
    return ShareSetting(
        study=study,
        beliefs=study.shares,
        geometry=geometry,
        n=players,
        alpha=np.array([alpha]),
        epsilon=np.array([mechanism.epsilon]),
        beta=beta,
        margin=mechanism.margin,
        tolerance=mechanism.tolerance,
        belief_gap=study.tolerance,
    )


def _describe_beliefs(study: Study, beliefs: ShareBeliefs) -> str:
    """State the beliefs about the average person in the question's units."""
    ends = (beliefs.low, beliefs.high)
    if study.kind == "yes-no":
        low, high = (f"{100 * end:g}%" for end in ends)
    else:
        low, high = (f"{study.response.low + 2 * study.response_unit * end:g}" for end in ends)
    return BELIEVED[study.kind].format(low=low, high=high)


def _share_truth(study: Study, mechanism: ShareRelease, s: ShareSetting) -> Truthfulness:
    """The least number of steps of a lie that does not pay, for the share of people who are not liars."""
    beliefs, worth, saved = s.beliefs, study.privacy_cost(mechanism.epsilon), float(s.saved[0, 0])
    average = beliefs.expects(np.eye(1, study.dimension) / beliefs.scale)
    steps, earned = None, 0.0
    for j in range(1, beliefs.levels):
        earned = mechanism.bonus * float(gain(s, j)[0, 0])
        if earned >= saved * (1 - 1e-9):
            steps = j
            break
    expects_yes, expects_no = (float((average.switch + average.advantage * y)[0]) for y in (1.0, -1.0))
    share = float(study.costs.cdf(max(0.0, earned - ROUNDING) / worth)) if steps else 0.0
    return Truthfulness(
        slope=0.0,
        share=share,
        gain=earned if steps else None,
        steps=steps,
        switch=float(average.switch[0]),
        expects_yes=expects_yes,
        expects_no=expects_no,
        probability=1 - s.beta,
        assumptions=(TRUTHFUL_PEERS, _describe_beliefs(study, beliefs), GIVEN_FEATURES, COSTS),
        **_share_shading(mechanism, beliefs.levels, average),
        **_share_tolerances(study, mechanism, s, steps, share),
    )


def _share_shading(mechanism: ShareRelease, levels: int, average: Expected) -> dict[str, Any]:
    """(B/4)(δ/w)(y − y')²: whoever answers y expects the others' share to be δy above the switch point."""
    part, steps = float((average.advantage / average.width(mechanism.margin))[0]), step_lies(levels)
    answers = np.linspace(-1, 1, levels)
    earned = mechanism.bonus / 2 * (1 + part / 2 * (1 + float(np.mean(answers**2))))
    return {
        "typical_pay": mechanism.flat + earned,
        "shading": shadings(steps * (levels - 1), mechanism.bonus * part * steps**2),
    }


def _share_tolerances(
    study: Study, mechanism: ShareRelease, s: ShareSetting, steps: int | None, share: float
) -> dict[str, Any]:
    """How far the share that somebody expects, given her answer, may be off: as declared, or for nine people in ten."""
    if steps is None:
        return {}
    if study.tolerance:
        return {"centre_tolerance": study.tolerance, "centre_share": share}
    cost = float(study.costs.quantile(NINE_IN_TEN))
    needed = (cost * study.privacy_cost(mechanism.epsilon) + ROUNDING) / mechanism.bonus
    found = float(tolerated_gap(s, steps, needed)[0, 0])
    return {"centre_tolerance": found, "centre_share": NINE_IN_TEN} if found > 0 else {}
