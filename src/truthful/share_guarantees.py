"""The five guarantees where people answer yes or no, or with a rating: functions of public numbers, as for numbers."""

from __future__ import annotations

import math

import numpy as np

from truthful.bounds import answers, shares
from truthful.bounds.shares import ROUNDING, ShareSetting
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
    Privacy,
    Truthfulness,
    not_protected,
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


def share_guarantees(
    study: Study,
    mechanism: ShareRelease,
    players: int,
    alpha: float,
    beta: float,
    geometry: Geometry,
    payable: int,
) -> Guarantees:
    """What is promised to and of so many players who answer; `payable` of them at most may have to be paid."""
    beliefs = study.shares
    if beliefs is None:
        raise InputError("The study asks for numbers.")
    s = ShareSetting(
        beliefs=beliefs,
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
    assumed = (TRUTHFUL_PEERS, _believed(study, beliefs), GIVEN_FEATURES, COSTS)
    accuracy = shares.accuracy_setting(s)
    error, of_people = (
        float(bound(accuracy).item()) for bound in (answers.coefficient_error, answers.prediction_error)
    )
    unit = study.response_unit
    worth = study.privacy_cost(mechanism.epsilon)
    joining = (mechanism.flat + mechanism.bonus / 2 - ROUNDING) / worth
    return Guarantees(
        Privacy(
            mechanism.epsilon, protects=mechanism.protects, not_protected=not_protected(study, mechanism)
        ),
        _truthfulness(study, beliefs, mechanism, s, worth, 1 - beta, assumed),
        Accuracy(
            error,
            unit * math.sqrt(error),
            unit * math.sqrt(of_people),
            1 - beta,
            assumptions=assumed,
            effect_rmse=effect_rmse(study, s),
        ),
        Participation(float(study.costs.cdf(joining)), joining, assumptions=assumed),
        Budget(
            expected=payable * (mechanism.flat + mechanism.bonus),
            cap=payable * (mechanism.flat + mechanism.bonus),
            likely=None,
            assumptions=assumed,
        ),
    )


def _believed(study: Study, beliefs: ShareBeliefs) -> str:
    """Of the average person's kind, in the words of the question."""
    ends = (beliefs.low, beliefs.high)
    if study.kind == "yes-no":
        low, high = (f"{100 * end:g}%" for end in ends)
    else:
        low, high = (f"{study.response.low + 2 * study.response_unit * end:g}" for end in ends)
    return BELIEVED[study.kind].format(low=low, high=high)


def _truthfulness(
    study: Study,
    beliefs: ShareBeliefs,
    mechanism: ShareRelease,
    s: ShareSetting,
    worth: float,
    probability: float,
    assumed: tuple[str, ...],
) -> Truthfulness:
    """The fewest steps of a lie that does not pay for the share of people who are not among the liars."""
    average = beliefs.expects(np.eye(1, study.dimension) / beliefs.scale)
    saved = float(s.saved[0, 0])
    steps, earned = None, 0.0
    for j in range(1, beliefs.levels):
        earned = mechanism.bonus * float(shares.gain(s, j)[0, 0])
        if earned >= saved * (1 - 1e-9):
            steps = j
            break
    expected = [float((average.switch + average.advantage * y)[0]) for y in (1.0, -1.0)]
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
        expects_yes=expected[0],
        expects_no=expected[1],
        probability=probability,
        assumptions=assumed,
        **_tolerated(study, mechanism, s, steps, share, worth),
    )


def _tolerated(
    study: Study, mechanism: ShareRelease, s: ShareSetting, steps: int | None, share: float, worth: float
) -> dict[str, float]:
    """How far the share that somebody expects may be off, given her answer: as declared, or for nine people in ten."""
    if steps is None:
        return {}
    if study.tolerance:
        return {"centre_tolerance": study.tolerance, "centre_share": share}
    cost = float(study.costs.quantile(NINE_IN_TEN))
    needed = (cost * worth + ROUNDING) / mechanism.bonus
    found = float(shares.tolerated_gap(s, steps, needed)[0, 0])
    return {"centre_tolerance": found, "centre_share": NINE_IN_TEN} if found > 0 else {}


def effect_rmse(study: Study, s: ShareSetting) -> float | None:
    """The largest root mean square error of a difference, in raw units."""
    errors = [float(shares.effect_error(s, k)[0, 0]) for k in range(len(study.differences))]
    return study.response_unit * math.sqrt(max(errors)) if errors else None
