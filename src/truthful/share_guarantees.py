"""The five guarantees where answers are shares, or people are also asked what the others will say.

Yes or no and ratings, with predictions or without: functions of public numbers, as for numbers.
"""

from __future__ import annotations

import math

import numpy as np

from truthful.asked_release import SCALE, AskedRelease, largest_gain, largest_loss
from truthful.bounds.asked_bounds import AskedSetting, advantage, gap, lie_size
from truthful.bounds.estimator_bounds import instruments_error
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
from truthful.guarantees import (
    COSTS,
    GIVEN_FEATURES,
    TRUTHFUL_PEERS,
    Accuracy,
    Budget,
    Guarantees,
    Participation,
    Truthfulness,
    privacy,
)
from truthful.share_release import ShareRelease
from truthful.study import Study
from truthful.study.credibility import ShareBeliefs

#: Of so many people it is said how wrong they may be for the truth to pay still.
NINE_IN_TEN = 0.9
BELIEVED = {
    "yes-no": "people believe what is declared: that between {low} and {high} say yes, and more if they do themselves",
    "rating": "people believe what is declared: that the mean rating is between {low} and {high}, and higher if their "
    "own is",
}
AGREED = (
    "people agree on what they expect of the others, whatever it is, and take others to expect what they do; one's own "
    "answer moves it as declared"
)
AGREED_STRICT = (
    "people agree on what they expect of the others, whatever it is, and expect more yes if they would say yes "
    "themselves"
)


def share_guarantees(
    study: Study,
    mechanism: ShareRelease | AskedRelease,
    players: int,
    alpha: float,
    beta: float,
    geometry: Geometry,
    payable: int,
) -> Guarantees:
    """What is promised to and of so many players who answer; `payable` of them at most may have to be paid."""
    s: RosterSetting
    if isinstance(mechanism, AskedRelease):
        s = asked = asked_setting(study, mechanism, players, alpha, beta, geometry)
        strict = asked.beliefs.strict
        assumed = _assumptions(AGREED_STRICT if strict else AGREED)
        truth = (_strict_truth if strict else _asked_truth)(study, mechanism, asked, assumed)
        average, most = _asked_payments(asked, mechanism, alpha)
        least = max(0.0, _least_expected(asked, mechanism) - ROUNDING)
    else:
        s = shares = share_setting(study, mechanism, players, alpha, beta, geometry)
        assumed = _assumptions(_belief_told(study, shares.beliefs))
        truth = _share_truth(study, mechanism, shares, assumed)
        average = most = mechanism.flat + mechanism.bonus
        least = mechanism.flat + mechanism.bonus / 2 - ROUNDING
    error, of_people = (
        float(instruments_error(accuracy_setting(s), predictions).item()) for predictions in (False, True)
    )
    unit, joining = study.response_unit, least / study.privacy_cost(mechanism.epsilon)
    return Guarantees(
        privacy(study, mechanism),
        truth,
        Accuracy(
            error,
            unit * math.sqrt(error),
            unit * math.sqrt(of_people),
            1 - beta,
            assumptions=assumed,
            effect_rmse=_effect_rmse(study, s),
        ),
        Participation(float(study.costs.cdf(joining)), joining, assumptions=assumed),
        Budget(expected=payable * average, cap=payable * most, likely=None, assumptions=assumed),
    )


def share_setting(
    study: Study, mechanism: ShareRelease, players: int, alpha: float, beta: float, geometry: Geometry
) -> ShareSetting:
    """What the bounds of shares depend on."""
    if study.shares is None:
        raise InputError("The study asks for numbers.")
    return ShareSetting(
        beliefs=study.shares,
        geometry=geometry,
        costs=study.costs,
        n=players,
        alpha=np.array([alpha]),
        epsilon=np.array([mechanism.epsilon]),
        beta=beta,
        margin=mechanism.margin,
        tolerance=mechanism.tolerance,
        privacy=study.declared.costs.privacy,
        assigned=study.assigned or not study.features,
        belief_gap=study.tolerance,
    )


def asked_setting(
    study: Study, mechanism: AskedRelease, players: int, alpha: float, beta: float, geometry: Geometry
) -> AskedSetting:
    """What the bounds of answers with predictions depend on."""
    if study.levels is None:
        raise InputError("The study does not ask what the others will say.")
    return AskedSetting(
        beliefs=study.levels,
        geometry=geometry,
        costs=study.costs,
        n=players,
        alpha=np.array([alpha]),
        epsilon=np.array([mechanism.epsilon]),
        beta=beta,
        ratio=mechanism.ratio,
        clip=np.array([mechanism.clip]),
        judged=math.isfinite(mechanism.plausible[1]),
        tolerance=study.level_tolerance,
        privacy=study.declared.costs.privacy,
        assigned=study.assigned or not study.features,
    )


def payable_to_all(mechanism: AskedRelease, slopes: object) -> bool:
    """Whether base payments cover what scores can take away, at these slopes: then nobody can owe."""
    lost = mechanism.score_weight * largest_loss(mechanism.rule, np.asarray(slopes), mechanism.clip)
    return bool(lost.max() <= mechanism.base_payment * (1 + 1e-9))


def _asked_payments(s: AskedSetting, mechanism: AskedRelease, alpha: float) -> tuple[float, float]:
    """What somebody is paid on average and at most, at most."""
    gained = largest_gain(mechanism.rule, s.believed[:, :2], mechanism.clip)
    head = (
        mechanism.base_payment + mechanism.score_weight * float(gained.max()) + mechanism.prediction_payment
    )
    average = mechanism.base_payment + mechanism.prediction_payment + alpha * (head - mechanism.base_payment)
    return head if s.beliefs.strict else min(average, head), head


def _least_expected(s: AskedSetting, mechanism: AskedRelease) -> float:
    """What somebody who tells the truth earns on average, at least, predictions left out.

    Of numbers: a − b(s²E[t²] + 2s(1−s)√(E[t²]E[Δ²])), t = y − p. Of yes and no: a, and more.
    """
    a, b = mechanism.base_payment, mechanism.score_weight
    if s.beliefs.strict:
        return a
    slope, v = float(s.believed[:, 1].max()), float(s.believed[:, 3].max())
    noise = (s.beliefs.dimension + 2) * (float(s.scale[0]) * s.worst[0]) ** 2
    apart = s.beliefs.variance * (1 + s.worst[1]) + v + noise
    square = min(mechanism.clip**2, v + noise)
    return max(0.0, a - b * (slope**2 * apart + 2 * slope * (1 - slope) * math.sqrt(apart * square)))


def _assumptions(believed: str) -> tuple[str, ...]:
    return (TRUTHFUL_PEERS, believed, GIVEN_FEATURES, COSTS)


def _belief_told(study: Study, beliefs: ShareBeliefs) -> str:
    """Of the average person's kind, in the words of the question."""
    ends = (beliefs.low, beliefs.high)
    if study.kind == "yes-no":
        low, high = (f"{100 * end:g}%" for end in ends)
    else:
        low, high = (f"{study.response.low + 2 * study.response_unit * end:g}" for end in ends)
    return BELIEVED[study.kind].format(low=low, high=high)


def _share_truth(
    study: Study, mechanism: ShareRelease, s: ShareSetting, assumed: tuple[str, ...]
) -> Truthfulness:
    """The fewest steps of a lie that does not pay for the share of people who are not among the liars."""
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
        lie=None,
        slack=None,
        slope=0.0,
        lie_in_answer=None,
        share=share,
        gain=earned if steps else None,
        steps=steps,
        switch=float(average.switch[0]),
        expects_yes=expects_yes,
        expects_no=expects_no,
        probability=1 - s.beta,
        assumptions=assumed,
        **_tolerances(study, mechanism, s, steps, share),
    )


def _tolerances(
    study: Study, mechanism: ShareRelease, s: ShareSetting, steps: int | None, share: float
) -> dict[str, float]:
    """How far the share that somebody expects may be off, given her answer: as declared, or for nine people in ten."""
    if steps is None:
        return {}
    if study.tolerance:
        return {"centre_tolerance": study.tolerance, "centre_share": share}
    cost = float(study.costs.quantile(NINE_IN_TEN))
    needed = (cost * study.privacy_cost(mechanism.epsilon) + ROUNDING) / mechanism.bonus
    found = float(tolerated_gap(s, steps, needed)[0, 0])
    return {"centre_tolerance": found, "centre_share": NINE_IN_TEN} if found > 0 else {}


def _asked_truth(
    study: Study, mechanism: AskedRelease, s: AskedSetting, assumed: tuple[str, ...]
) -> Truthfulness:
    """From which size on no lie pays; of ratings, from how many steps on."""
    lie, b, k = float(lie_size(s, mechanism.score_weight)[0, 0]), mechanism.score_weight, s.beliefs.slope
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
        lie=None,
        slack=b * (float(off.max()) ** 2) + saved if promised else None,
        share=float(study.costs.cdf(max(0.0, saved - ROUNDING) / worth)) if promised else 0.0,
        slope=k,
        lie_in_answer=told * study.response_unit if promised else None,
        probability=1 - s.beta,
        assumptions=assumed,
        steps=steps,
        gain=earned,
        centre_tolerance=k * told / (2 * (1 - k)) * study.response_unit if promised else None,
    )


def _strict_truth(
    study: Study, mechanism: AskedRelease, s: AskedSetting, assumed: tuple[str, ...]
) -> Truthfulness:
    """Of yes and no: what the truth earns more than the other answer."""
    found, worth = float(advantage(s)[0, 0]), study.privacy_cost(mechanism.epsilon)
    earned = 2 * mechanism.score_weight * found / mechanism.clip
    paid = earned >= float(s.saved[0, 0]) * (1 - 1e-9)
    return Truthfulness(
        lie=None,
        slack=None,
        slope=s.beliefs.slope,
        lie_in_answer=None,
        share=float(study.costs.cdf(max(0.0, earned - ROUNDING) / worth)) if paid else 0.0,
        probability=1 - s.beta,
        assumptions=assumed,
        steps=1 if paid else None,
        gain=earned if paid else None,
        centre_tolerance=found * study.response_unit if paid else None,
    )


def _effect_rmse(study: Study, s: RosterSetting) -> float | None:
    """The largest root mean square error of a difference, in raw units, where answers are shares."""
    if study.shares is None:
        return None
    errors = [float(effect_error(s, k)[0, 0]) for k in range(len(study.differences))]
    return study.response_unit * math.sqrt(max(errors)) if errors else None
