"""What a plan can cost in coins that exist, for one person and for all: the exact amounts are rounded by lot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from babel.numbers import get_currency_precision

from truthful import one_release, random_halves
from truthful.asked_release import SCALE, AskedRelease, largest_gain, largest_loss, score
from truthful.check import Floats
from truthful.coins import EXACT, coin_range, in_millionths, most_in_coins
from truthful.guarantees import Guarantees
from truthful.intake import read_features
from truthful.plan import Plan
from truthful.random_halves import Mechanism
from truthful.release.verdict import Steps
from truthful.scoring import PAYMENT_STEPS
from truthful.service.roster_file import feature_columns
from truthful.share_release import ShareRelease
from truthful.study import Study
from truthful.study.credibility import ShareBeliefs

People = Sequence[Mapping[str, Any]]


def coin_digits(currency: str) -> int:
    """Digits after the point of the smallest coin: 2 for dollars, 0 for yen."""
    return min(int(get_currency_precision(currency)), EXACT)


def pay_range(plan: Plan) -> tuple[Decimal, Decimal]:
    """The least and the most that anybody is paid, whatever anybody does."""
    return coin_range(*_payment_range(plan), coin_digits(plan.study.currency))


def _payment_range(plan: Plan) -> tuple[float, float]:
    mechanism = plan.mechanism
    if isinstance(mechanism, ShareRelease):
        return mechanism.payment_range
    if isinstance(mechanism, Mechanism):
        return random_halves.payment_range(mechanism, plan.study.beliefs)
    if isinstance(mechanism, AskedRelease):
        return asked_payment_range(mechanism, plan.study)
    return one_release.payment_range(mechanism)


def her_pay_range(plan: Plan, features: Mapping[str, Any]) -> tuple[Decimal, Decimal]:
    """The least and the most that somebody with these features is paid: payments start from what follows from them."""
    mechanism = plan.mechanism
    if isinstance(mechanism, Mechanism | ShareRelease | AskedRelease) or not mechanism.clipped:
        return pay_range(plan)
    r = _lengths(plan.study, [features])
    base, reach, rule = float(mechanism.base(r)[0]), mechanism.clip * float(r[0]), mechanism.scoring
    ends = (
        base - mechanism.score_weight * rule.loss(reach),
        base + mechanism.score_weight * rule.gain(reach),
    )
    least, most = (np.floor(max(0.0, end) * PAYMENT_STEPS) / PAYMENT_STEPS for end in ends)
    return coin_range(float(least), float(most), coin_digits(plan.study.currency))


def most_paid(plan: Plan, players: int, promised: Guarantees) -> Decimal:
    """The most that so many people are paid together: what is promised of exact amounts, and a coin for each."""
    _, most = _payment_range(plan)
    digits = coin_digits(plan.study.currency)
    alike, cap = most_in_coins(players, most, digits), promised.budget.cap
    if cap is None:
        return alike
    coin = Decimal(1).scaleb(-digits)
    return min(alike, (Decimal(cap) + players * coin).quantize(coin, ROUND_FLOOR))


def base_payments(plan: Plan, people: People) -> list[float]:
    """What everybody's payment starts from, in whole millionths: it is paid if the study is cancelled.

    Where a bonus depends on what others say, half of it is added: what is paid if nothing is known of the others. So is
    half of what a prediction can earn.
    """
    mechanism = plan.mechanism
    if isinstance(mechanism, ShareRelease):
        bases = np.full(len(people), mechanism.flat + mechanism.bonus / 2)
    elif isinstance(mechanism, AskedRelease):
        bases = np.full(len(people), mechanism.base_payment + mechanism.prediction_payment / 2)
    elif isinstance(mechanism, Mechanism):
        bases = np.full(len(people), mechanism.base_payment)
    else:
        bases = mechanism.base(_lengths(plan.study, people))
    exact: list[float] = (np.floor(bases * PAYMENT_STEPS) / PAYMENT_STEPS).tolist()
    return exact


@dataclass(frozen=True)
class Bases:
    """What so many people are paid if their study is cancelled: the least, the most, and all together.

    `half` is of what it holds half: of a bonus, or of what predictions earn; None if of nothing.
    """

    people: int
    least: Decimal
    most: Decimal
    total: Decimal
    currency: str
    half: str | None = None


def bases(plan: Plan, people: People) -> Bases:
    exact = [Decimal(in_millionths(amount)) / PAYMENT_STEPS for amount in base_payments(plan, people)]
    return Bases(
        len(exact),
        min(exact),
        max(exact),
        sum(exact, Decimal(0)),
        plan.study.currency,
        "bonus"
        if plan.share_mechanism is not None
        else "predictions"
        if plan.study.levels is not None
        else None,
    )


def _lengths(study: Study, people: People) -> Floats:
    """The length of everybody's features, normalised."""
    if not study.features:
        return random_halves.lengths(study.normalise({}, len(people)))
    return random_halves.lengths(read_features(study, pa.table(feature_columns(study, people))))


#: The lowest and the highest answer, normalised: no and yes.
ENDS = (-1.0, 1.0)
#: The size of the chart, and what is left free around its lines.
WIDTH, HEIGHT, FREE = 320, 160, 8


@dataclass(frozen=True)
class Bonus:
    """What the lowest and the highest answer pay somebody, by the share that the others' answers come to.

    `possible` are the shares that were thought possible for people like her, and beyond `plausible`, if anything is,
    everybody is paid `same`, whatever she says. `slope` is what a share that is higher by 1 adds to the highest answer,
    within `width` of the switch point; `middle` times half of the bonus is what the rating in the middle has more.
    """

    flat: float
    most: float
    switch: float
    width: float
    same: float
    slope: float
    middle: float
    possible: tuple[float, float]
    plausible: tuple[float, float] | None
    rows: tuple[tuple[float, float, float], ...]
    lines: tuple[str, str]
    """The chart: both as points of a polyline."""
    crossing: tuple[float, float]

    @property
    def view(self) -> str:
        """The chart's own coordinates."""
        return f"0 0 {WIDTH} {HEIGHT}"


def bonus_of(plan: Plan, features: Mapping[str, Any]) -> Bonus | None:
    """The bonus of somebody with these features; None where answers are numbers."""
    mechanism, beliefs = plan.share_mechanism, plan.study.shares
    if mechanism is None or beliefs is None:
        return None
    return _bonus(mechanism, beliefs, features_of(plan.study, features))


def bonus_at(mechanism: ShareRelease, beliefs: ShareBeliefs, x: tuple[float, ...]) -> Bonus:
    """The same, of normalised features."""
    return _bonus(mechanism, beliefs, np.array([x]))


def features_of(study: Study, features: Mapping[str, Any]) -> Floats:
    """One person's features, normalised."""
    if not study.features:
        return study.normalise({}, 1)
    return read_features(study, pa.table(feature_columns(study, [features])))


def _bonus(mechanism: ShareRelease, beliefs: ShareBeliefs, x: Floats) -> Bonus:
    expected = beliefs.expects(x)
    switch, width, low, high = (
        float(values[0])
        for values in (expected.switch, expected.width(mechanism.margin), expected.low, expected.high)
    )

    def pays(share: float) -> tuple[float, float]:
        """What the lowest and the highest answer pay at this share."""
        lowest, highest = (
            float(mechanism.steps(beliefs, x, np.array([y]), np.array([share]))[2][0]) for y in ENDS
        )
        return lowest, highest

    tolerance = mechanism.tolerance
    plausible = None if np.isinf(tolerance) else (low - tolerance, high + tolerance)
    start, end = (0.0, 1.0) if plausible is None else (max(0.0, plausible[0]), min(1.0, plausible[1]))
    most = mechanism.flat + mechanism.bonus
    corners = sorted({start, end, *(min(max(switch + side * width, start), end) for side in ENDS)})

    def at(share: float, paid: float) -> tuple[float, float]:
        """A place in the chart."""
        across = (share - start) / (end - start)
        up = (paid - mechanism.flat) / mechanism.bonus if mechanism.bonus else 0.5
        return (
            round(FREE + across * (WIDTH - 2 * FREE), 1),
            round(HEIGHT - FREE - up * (HEIGHT - 2 * FREE), 1),
        )

    points = [[at(share, pays(share)[k]) for share in corners] for k in (0, 1)]
    lowest, highest = (" ".join(f"{across},{down}" for across, down in line) for line in points)
    same = mechanism.flat + mechanism.bonus / 2
    return Bonus(
        flat=mechanism.flat,
        most=most,
        switch=switch,
        width=width,
        same=same,
        slope=mechanism.bonus / (2 * width),
        middle=float(expected.advantage[0]) / (2 * width),
        possible=(low, high),
        plausible=plausible,
        rows=tuple((share, *pays(share)) for share in (low, switch, high)),
        lines=(lowest, highest),
        crossing=at(switch, same),
    )


#: How far from the others' average the answers are that are told of, as parts of the scale of answers.
APART = (-0.25, 0.0, 0.25)


@dataclass(frozen=True)
class Stakes:
    """What answers and predictions pay, in units of predictions: of the answer, or of 100 others.

    `columns` are answers, as distances from the others' average; for yes or no they are no and yes, −1 and 1. `rows`
    are surprises, each with what these answers are paid. A prediction that is off by `apart`, `far` or not at all is
    paid what `predictions` say. `judged` is whether averages that nobody thought possible pay all answers alike.
    """

    base: float
    clip: float
    columns: tuple[float, ...]
    rows: tuple[tuple[float, tuple[float, ...]], ...]
    apart: float
    far: float
    predictions: tuple[float, float, float]
    judged: bool


def stakes_of(plan: Plan, features: Mapping[str, Any]) -> Stakes | None:
    """What somebody with these features is told; None where nobody is asked what the others will say."""
    mechanism, beliefs, study = plan.asked_mechanism, plan.study.levels, plan.study
    if mechanism is None or beliefs is None:
        return None
    unit = _unit(study)
    # Who will take part is not known: as if their features were in the middle.
    middle = np.eye(1, beliefs.dimension)[0] / beliefs.scale
    slope = float(beliefs.slopes(features_of(study, features), middle)[0])
    answers = ENDS if beliefs.strict else tuple(SCALE * part for part in APART)
    surprise = _round(mechanism.clip * unit / 2)
    rows = [
        (told, tuple(_paid(mechanism, _score(mechanism, slope, y, 0.0, told / unit)) for y in answers))
        for told in (-surprise, 0.0, surprise)
    ]
    apart, far = unit / 2, unit
    return Stakes(
        base=mechanism.base_payment,
        clip=mechanism.clip * unit,
        columns=answers if beliefs.strict else tuple(y * unit for y in answers),
        rows=tuple(rows),
        apart=apart,
        far=far,
        predictions=(
            _predicted(mechanism, 0.0),
            _predicted(mechanism, apart / unit),
            _predicted(mechanism, far / unit),
        ),
        judged=np.isfinite(mechanism.plausible).all().item(),
    )


@dataclass(frozen=True)
class Earned:
    """How a payment came about: others' averages and the surprise in units of predictions, and both its parts."""

    others_answer: float
    others_prediction: float
    surprise: float
    clip: float
    limit: float
    """The same on the scale of answers from −1 to 1, and so all below."""
    peer: float
    """What the others' answers predict of people like her, cut to the scale."""
    average: float
    """And of everybody."""
    score: float
    for_answer: float
    for_prediction: float
    weight: float
    """w, of the square of how far a prediction is off."""
    plausible: bool


def earned(mechanism: AskedRelease, study: Study, found: Steps) -> Earned:
    """The parts of one payment, from its steps."""
    (low, _), unit = study.prediction_range, _unit(study)
    answer, prediction = found.others_answer or 0.0, found.others_prediction or 0.0
    peer, average = (min(max(value, -1.0), 1.0) for value in (found.peer_prediction, answer))
    counts = bool(found.plausible)
    scored = _score(mechanism, found.slope or 0.0, found.y, peer, found.score) if counts else 0.0
    return Earned(
        others_answer=low + unit * (answer + 1),
        others_prediction=low + unit * (prediction + 1),
        surprise=unit * found.score,
        clip=unit * mechanism.clip,
        limit=mechanism.clip,
        peer=peer,
        average=average,
        score=scored,
        for_answer=_paid(mechanism, scored),
        for_prediction=_predicted(mechanism, (found.prediction or 0.0) - average),
        weight=mechanism.prediction_weight,
        plausible=counts,
    )


def asked_payment_range(mechanism: AskedRelease, study: Study) -> tuple[float, float]:
    """The least and the most that anybody is paid, whoever answers whatever."""
    low, high = (0.0, 1.0) if study.levels is None else study.levels.slope_range
    C = mechanism.clip
    # Where the most that a score adds is largest, and where what it takes away is, if it is not largest at an end.
    peaks = (C / (2 * (1 + C)), C / (2 * (C - 1)) if C > 1 else high)
    slopes = np.clip(np.array([low, high, *peaks]), low, high)
    gain, loss = (float(of(mechanism.rule, slopes, C).max()) for of in (largest_gain, largest_loss))
    least = max(0.0, mechanism.base_payment - mechanism.score_weight * loss)
    most = mechanism.base_payment + mechanism.score_weight * gain + mechanism.prediction_payment
    return math.floor(least * PAYMENT_STEPS) / PAYMENT_STEPS, math.floor(most * PAYMENT_STEPS) / PAYMENT_STEPS


def _unit(study: Study) -> float:
    """Half the scale of predictions."""
    low, high = study.prediction_range
    return (high - low) / 2


def _score(mechanism: AskedRelease, slope: float, y: float, p: float, surprise: float) -> float:
    """Of one answer."""
    s, answer, peer, counted = (np.array(value) for value in (slope, y, p, surprise))
    return float(score(mechanism.rule, s, answer, peer, counted, mechanism.clip))


def _paid(mechanism: AskedRelease, scored: float) -> float:
    return max(0.0, mechanism.base_payment + mechanism.score_weight * scored)


def _predicted(mechanism: AskedRelease, off: float) -> float:
    """What a prediction that is off by so much earns, half the scale being 1."""
    return mechanism.prediction_weight * (SCALE**2 - off * off)


def _round(value: float) -> float:
    """A number of one digit."""
    return float(f"{value:.1g}")
