"""A plan's offer to one person before she consents, and its cost for everybody, in whole coins.

Exact amounts are rounded to coins at random. Where predictions are asked for, the study's beliefs are not shown
beforehand: they would influence hers. All numbers come from the library. Functions return the values that templates
show, by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np

from truthful import one_release
from truthful.asked_release import SCALE, AskedRelease, score
from truthful.charts.estimate_charts import Odds
from truthful.check import Floats
from truthful.coins import coin_digits, coin_range, in_millionths, most_in_coins
from truthful.deterrence import Typical, least_noise, mean_square_prediction
from truthful.formatting import even_odds, protects
from truthful.guarantees import Guarantees
from truthful.moments import GRID, grid_features, lengths
from truthful.one_release import OneRelease
from truthful.plan import Plan
from truthful.promises import promises
from truthful.release import Verdict
from truthful.scoring import PAYMENT_STEPS, round_down
from truthful.share_release import ShareRelease
from truthful.study import Study

Features = Mapping[str, Any]
#: The values for a template, by name.
Shown = dict[str, Any]
#: The lowest and the highest answer, normalised; for yes or no, no and yes.
ENDS = (-1.0, 1.0)
#: The size of the chart of a bonus, and the margin around its lines.
WIDTH, HEIGHT, MARGIN = 320, 160, 8
#: The distances from the others' average of the answers in the table of stakes, as parts of the scale of answers.
DISTANCES = (-0.25, 0.0, 0.25)
#: The prior beliefs for which posterior odds are shown.
PRIORS = (0.1, 0.5, 0.9)


def pay_range(plan: Plan, features: Features | None = None) -> tuple[Decimal, Decimal]:
    """The least and the most that anybody, or somebody with these features, is paid, whatever anybody does.

    Where payments depend on features, the range for given features is narrower.
    """
    mechanism, (least, most) = plan.mechanism, _payment_range(plan)
    if features is not None and isinstance(mechanism, OneRelease) and mechanism.clipped:
        r = lengths(_normalise(plan.study, [features]))
        reach, rule, b = mechanism.clip * float(r[0]), mechanism.scoring, mechanism.score_weight
        ends = mechanism.base(r) + np.array([-b * rule.loss(reach), b * rule.gain(reach)])
        least, most = round_down(np.maximum(ends, 0.0)).tolist()
    return coin_range(least, most, coin_digits(plan.study.currency))


def _payment_range(plan: Plan) -> tuple[float, float]:
    mechanism, levels = plan.mechanism, plan.study.levels
    if isinstance(mechanism, ShareRelease):
        return mechanism.payment_range
    if isinstance(mechanism, AskedRelease) and levels is not None:
        return mechanism.payment_range(levels)
    return one_release.payment_range(plan.number_mechanism)


def most_paid(plan: Plan, players: int, promised: Guarantees) -> Decimal:
    """The most that this number of players are paid together, in coins."""
    cap = promised.budget.cap
    most = players * _payment_range(plan)[1] if cap is None else cap
    return most_in_coins(most, coin_digits(plan.study.currency))


def terms(plan: Plan) -> Shown:
    """A plan's promises, and its payments to each and to all."""
    most = most_paid(plan, plan.players, plan.guarantees)
    return {"promises": promises(plan), "pay": pay_range(plan), "most": most}


def base_payments(plan: Plan, people: Sequence[Features]) -> list[float]:
    """Everybody's base payment, in whole millionths, which is paid if the study is cancelled.

    Where a bonus depends on the others' answers, it includes half of that bonus: the payment if nothing is known of the
    others. Likewise it includes half of the most that a prediction can earn.
    """
    mechanism = plan.mechanism
    if isinstance(mechanism, ShareRelease):
        bases = np.full(len(people), mechanism.flat + mechanism.bonus / 2)
    elif isinstance(mechanism, AskedRelease):
        bases = np.full(len(people), mechanism.base_payment + mechanism.prediction_payment / 2)
    else:
        bases = mechanism.base(lengths(_normalise(plan.study, people)))
    return [float(base) for base in round_down(bases)]


def bases(plan: Plan, people: Sequence[Features]) -> Shown:
    """The payments to these people if their study is cancelled: the least, the most, and the total.

    `half` names the part that is paid by half, "bonus" or "predictions", or is None.
    """
    exact = [Decimal(in_millionths(amount)) / PAYMENT_STEPS for amount in base_payments(plan, people)]
    asked = "predictions" if plan.study.levels is not None else None
    return {
        "people": len(exact),
        "least": min(exact),
        "most": max(exact),
        "total": sum(exact, Decimal(0)),
        "currency": plan.study.currency,
        "half": "bonus" if plan.share_mechanism is not None else asked,
    }


def _normalise(study: Study, people: Sequence[Features]) -> Floats:
    """People's features as a settlement normalises them. A roster's features are already checked."""
    columns = {feature.name: [features[feature.name] for features in people] for feature in study.features}
    return grid_features(study.normalise(columns, len(people))) / GRID


def make_offer(plan: Plan, features: Features) -> Shown:
    """The offer to a player with these features: her pay in coins, and her loss of privacy as betting odds.

    `protects` is whether ε is small enough to protect anybody. `all_protected` is whether features are protected as
    well as answers. `shows_sums` is whether exact sums of features are published. `typical` is what players with these
    features are paid on average for the truth, and `shading` what lies of some sizes cost a typical player.
    """
    return _make_offer(plan, tuple(features.items()))


@lru_cache(maxsize=1024)  # players reload their page, and many have the same features
def _make_offer(plan: Plan, known: tuple[tuple[str, Any], ...]) -> Shown:
    features = dict(known)
    mechanism, study, x = plan.mechanism, plan.study, _normalise(plan.study, [features])
    least, most = pay_range(plan, features)
    odds, truth = Odds(mechanism.epsilon), plan.guarantees.truthfulness
    scored = (mechanism.bonus if isinstance(mechanism, ShareRelease) else mechanism.score_weight) > 0
    own = _base_and_score(plan, x)
    typical = truth.typical_pay if own is None else sum(own)
    return {
        "least": least,
        "most": most,
        "typical": typical if typical is not None and least < most and least <= typical <= most else None,
        "scored": scored,
        "all_protected": study.protects == "records" and bool(study.features),
        "shows_sums": study.publishes_matrix,
        "epsilon": mechanism.epsilon,
        "protects": protects(mechanism.epsilon),
        "even_odds": even_odds(mechanism.epsilon),
        "guesses": _guesses(mechanism.epsilon),
        "shading": truth.shading or () if scored else (),
        "example": _example(mechanism, *own) if own and scored else None,
        "surer": [(before, *odds.in_tenths(before)) for before in PRIORS],
        "bonus": bonus_at(mechanism, study, x),
        "stakes": stakes_at(mechanism, study, x),
    }


def _base_and_score(plan: Plan, x: Floats) -> tuple[float, float] | None:
    """What payments start from at these features, and the mean pay of truthful answers above that.

    Only for numbers, where something is promised about them; otherwise None.
    """
    mechanism, promised = plan.mechanism, plan.guarantees.truthfulness
    if (
        not isinstance(mechanism, OneRelease)
        or promised.typical_pay is None
        or promised.typical_noise is None
    ):
        return None
    r = lengths(x)
    return float(mechanism.base(r)[0]), float(np.interp(r, *_mean_scores(plan, promised.typical_noise))[0])


@lru_cache(maxsize=32)
def _mean_scores(plan: Plan, noise: float) -> tuple[Floats, Floats]:
    """Some lengths of features, and the mean pay of truthful answers at each above the base payment: bE[q²]."""
    study, mechanism = plan.study, plan.number_mechanism
    possible, curve = least_noise(study)[0], mechanism.curve(study.beliefs)
    squares = [mean_square_prediction(study, Typical(float(r), noise, curve)) for r in possible]
    return possible, mechanism.score_weight * np.array(squares)


def _example(mechanism: object, base: float, earned: float) -> tuple[float, ...] | None:
    """The pay of a typical answer that predicts others above their expected average: if they are as far above, at the
    average, and as far below. Only under the quadratic rule; otherwise None.

    For p = q, 0 and −q the payment is base + b(2pq − q²), and `earned` is the mean of bq².
    """
    if not isinstance(mechanism, OneRelease) or mechanism.rule != "quadratic":
        return None
    return tuple(base + part * earned for part in (1, -1, -3))


def _guesses(epsilon: float) -> tuple[tuple[int, str], tuple[int, str]]:
    """How many of 100 guesses between two answers are right, without the result and with it, rounded up.

    Each comes with the SVG path that covers so many of 100 dots, in five rows of twenty, 10 units apart.
    """
    return (50, _dots(50)), (after := math.ceil(even_odds(epsilon)[0]), _dots(after))


def _dots(count: int) -> str:
    rows, rest = divmod(count, 20)
    return f"M0 0H200V{10 * rows}H{10 * rest}v{10 if rest else 0}H0z"


def bonus_at(mechanism: object, study: Study, x: Floats) -> Shown | None:
    """The pay of the lowest and the highest answer, at these features; None where answers are numbers.

    It depends on the share of the others' answers. Outside `plausible`, unless that is None, everybody is paid `same`.
    `slope` is what a share higher by 1 adds to the highest answer's pay, within `width` of the switch point; the middle
    rating is paid `middle` times half of the bonus more. `lines` and `crossing` are the chart in the coordinates of
    `view`: polylines, and the point where they meet.
    """
    if not isinstance(mechanism, ShareRelease) or study.shares is None:
        return None
    beliefs, tolerance = study.shares, mechanism.tolerance
    expected = beliefs.expects(x)

    def pays(share: float) -> list[float]:
        """The pay of the lowest and the highest answer at this share."""
        return [float(mechanism.steps(beliefs, x, np.array([y]), np.array([share]))[2][0]) for y in ENDS]

    switch, width, low, high = (
        float(values[0])
        for values in (expected.switch, expected.width(mechanism.margin), expected.low, expected.high)
    )
    plausible = None if np.isinf(tolerance) else (low - tolerance, high + tolerance)
    lines, crossing = _chart(mechanism, pays, (switch, width), plausible)
    return {
        "flat": mechanism.flat,
        "most": mechanism.flat + mechanism.bonus,
        "switch": switch,
        "width": width,
        "same": mechanism.flat + mechanism.bonus / 2,
        "slope": mechanism.bonus / (2 * width),
        "middle": float(expected.advantage[0]) / (2 * width),
        "plausible": plausible,
        "rows": [(share, *pays(share)) for share in (low, switch, high)],
        "lines": lines,
        "crossing": crossing,
        "view": f"0 0 {WIDTH} {HEIGHT}",
    }


def _chart(
    mechanism: ShareRelease,
    pays: Callable[[float], list[float]],
    switch_point: tuple[float, float],
    plausible: tuple[float, float] | None,
) -> tuple[list[str], tuple[float, float]]:
    """Both lines and their crossing, in the chart's coordinates."""
    switch, width = switch_point
    start, end = (0.0, 1.0) if plausible is None else (max(0.0, plausible[0]), min(1.0, plausible[1]))
    corners = sorted({start, end, *(min(max(switch + side * width, start), end) for side in ENDS)})

    def at(share: float, paid: float) -> tuple[float, float]:
        across = (share - start) / (end - start)
        up = (paid - mechanism.flat) / mechanism.bonus if mechanism.bonus else 0.5
        place = MARGIN + across * (WIDTH - 2 * MARGIN), HEIGHT - MARGIN - up * (HEIGHT - 2 * MARGIN)
        return round(place[0], 1), round(place[1], 1)

    paid = [(share, pays(share)) for share in corners]
    points = [[at(share, both[k]) for share, both in paid] for k in (0, 1)]
    lines = [" ".join(f"{across},{down}" for across, down in line) for line in points]
    return lines, at(switch, mechanism.flat + mechanism.bonus / 2)


def stakes_at(mechanism: object, study: Study, x: Floats) -> Shown | None:
    """The pay of answers and predictions; None where no predictions are asked for.

    Units are those of predictions: of the answer, or people out of 100. `columns` are answers, as distances from the
    others' average; for yes or no they are no and yes, −1 and 1. `rows` are surprises, each with the pay of these
    answers. `predictions` are the pay of a prediction that is exact, off by `apart`, and off by `far`. `judged` is
    whether implausible averages pay all answers alike.
    """
    beliefs = study.levels
    if not isinstance(mechanism, AskedRelease) or beliefs is None:
        return None
    unit = _unit(study)
    # The others' features are unknown beforehand, so the middle ones stand for them.
    middle = np.eye(1, beliefs.dimension)[0] / beliefs.scale
    slope = float(beliefs.slopes(x, middle)[0])
    answers = ENDS if beliefs.strict else tuple(SCALE * part for part in DISTANCES)
    surprise = float(f"{mechanism.clip * unit / 2:.1g}")
    return {
        "base": mechanism.base_payment,
        "clip": mechanism.clip * unit,
        "columns": answers if beliefs.strict else tuple(y * unit for y in answers),
        "rows": [
            (shift, [_pay_at(mechanism, _score(mechanism, slope, y, 0.0, shift / unit)) for y in answers])
            for shift in (-surprise, 0.0, surprise)
        ],
        "apart": unit / 2,
        "far": unit,
        "predictions": [_prediction_pay(mechanism, off) for off in (0.0, 0.5, 1.0)],
        "judged": np.isfinite(mechanism.plausible).all().item(),
    }


def steps_with_predictions(mechanism: object, study: Study, found: Verdict) -> Shown | None:
    """The steps of one payment, recomputed; None where no predictions are asked for.

    The others' averages, the surprise and its limit `clip` are in units of predictions; from `limit` on, all is on the
    scale of answers from −1 to 1. `peer` is the peer prediction, clipped to the scale, and `average` the others'
    average; `weight` is w, the weight of a prediction's squared error.
    """
    if not isinstance(mechanism, AskedRelease):
        return None
    (low, _), unit = study.prediction_range, _unit(study)
    answer, prediction, surprise = (
        value or 0.0 for value in (found.others_answer, found.others_prediction, found.surprise)
    )
    peer, average = (min(max(value, -1.0), 1.0) for value in (found.peer_prediction, answer))
    counts = bool(found.plausible)
    scored = _score(mechanism, found.slope or 0.0, found.answer, peer, surprise) if counts else 0.0
    return {
        "others_answer": low + unit * (answer + 1),
        "others_prediction": low + unit * (prediction + 1),
        "surprise": unit * surprise,
        "clip": unit * mechanism.clip,
        "limit": mechanism.clip,
        "peer": peer,
        "average": average,
        "score": scored,
        "for_answer": _pay_at(mechanism, scored),
        "for_prediction": _prediction_pay(mechanism, (found.prediction or 0.0) - average),
        "weight": mechanism.prediction_weight,
        "plausible": counts,
    }


def _unit(study: Study) -> float:
    """Half the width of the scale of predictions."""
    low, high = study.prediction_range
    return (high - low) / 2


def _score(mechanism: AskedRelease, slope: float, y: float, p: float, surprise: float) -> float:
    s, answer, peer, counted = (np.array(value) for value in (slope, y, p, surprise))
    return float(score(mechanism.rule, s, answer, peer, counted, mechanism.clip))


def _pay_at(mechanism: AskedRelease, scored: float) -> float:
    return max(0.0, mechanism.base_payment + mechanism.score_weight * scored)


def _prediction_pay(mechanism: AskedRelease, off: float) -> float:
    """The pay of a prediction with the error `off`, in units of half the scale."""
    return mechanism.prediction_weight * (SCALE**2 - off * off)
