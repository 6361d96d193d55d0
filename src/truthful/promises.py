"""The five guarantees in words: always these, in this order; and what must be said of a rehearsal."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from truthful.guarantees import Guarantees, inaccurate_because, model, untruthful_because
from truthful.plan import Plan
from truthful.release import Release
from truthful.words import money, number, odds, percent

NOTHING = "nothing is promised"
#: What a seeded run must say wherever it is seen.
REHEARSAL = (
    "REHEARSAL: the noise comes from a seed, so it protects nobody. Do not use it on people's answers."
)


@dataclass(frozen=True)
class Promise:
    """One guarantee: what, how surely, assuming what. Where nothing is promised there is no probability.

    `given` says what the assumptions are for, {} standing for them, where a part of the promise needs none.
    """

    name: str
    words: str
    probability: str
    assumptions: tuple[str, ...]
    given: str = "{}"


def promises(plan: Plan, players: int) -> tuple[Promise, ...]:
    """What a plan promises if so many take part."""
    promised = plan.guarantees_for(players)
    return (
        _promise("privacy", promised, _privacy(promised)),
        _promise("truthfulness", promised, _truthfulness(promised, plan)),
        _promise("accuracy", promised, _accuracy(promised, plan)),
        _promise("participation", promised, _participation(promised, plan)),
        _budget(promised, plan, players),
    )


def released(release: Release, plan: Plan) -> tuple[Promise, ...]:
    """The plan's promises for those who took part. What privacy assumes is the release's to say."""
    privacy, *others = promises(plan, release.players)
    return replace(privacy, assumptions=tuple(release.guarantees["privacy"]["assumptions"])), *others


def _promise(name: str, promised: Guarantees, words: str) -> Promise:
    group = getattr(promised, name)
    if words.startswith(NOTHING):
        return Promise(name, words, "", ())
    probability = "certain" if group.probability == 1 else percent(group.probability)
    return Promise(name, words, probability, group.assumptions)


def _privacy(promised: Guarantees) -> str:
    epsilon = promised.privacy.epsilon
    return (
        "nobody who sees the result can tell your answer from any other answer with better than "
        f"{odds(epsilon)} odds (ε = {epsilon:.4g})"
    )


def _truthfulness(promised: Guarantees, plan: Plan) -> str:
    """A lie counts by how far it moves the own prediction, here in units of the response."""
    lie, slack = promised.truthfulness.lie, promised.truthfulness.slack
    study = plan.study
    if lie is None or slack is None:
        return f"{NOTHING}: {untruthful_because(study, plan.mechanism, plan.absent_share)}"
    moved = number(lie * study.response_unit)
    if not promised.truthfulness.share > 0:
        return (
            f"{NOTHING}: only lies that move a prediction by more than {moved} would cost, and no answer does. A "
            "smaller epsilon or absent_share, a larger score_weight or more players would help"
        )
    return (
        f"no lie that moves the prediction made from an answer by more than {moved} (of {_width(plan)}) pays, and none "
        f"gains over {money(slack, study.currency)}, for {percent(1 - plan.absent_share)} of people; "
        f"{_in_answers(promised, plan)}; of those with typical features "
        f"{percent(promised.truthfulness.share, 0)} could tell one as large"
    )


def _in_answers(promised: Guarantees, plan: Plan) -> str:
    """The same lie as a change of the answer itself, for a typical person."""
    answer, width = promised.truthfulness.lie_in_answer, plan.study.response.high - plan.study.response.low
    if answer is None:
        return "some changes of an answer move no prediction, and are free"
    if not answer < width:
        return f"predictions follow answers weakly (slope {number(promised.truthfulness.slope)})"
    return f"in answers that is about {number(answer)}"


def _accuracy(promised: Guarantees, plan: Plan) -> str:
    """Errors next to what the prior mean has, which costs nothing."""
    rmse, study = promised.accuracy.rmse, plan.study
    if rmse is None:
        return f"{NOTHING}: {inaccurate_because(study)}"
    guess = study.response_unit * math.sqrt(model(study).prior_square)
    if not rmse < guess:
        return (
            f"{NOTHING}: the bound on the error of predictions is {number(rmse)}, and answering with the prior mean, "
            f"without asking anybody, is off by {number(guess)}. More players or a larger epsilon would help"
        )
    typical = number(promised.accuracy.prediction_rmse or rmse)
    return (
        f"any prediction (and the coefficients, in normalised units) is off by at most {number(rmse)} "
        f"(of {_width(plan)}), root mean square; predictions of people like these by {typical}"
    )


def _participation(promised: Guarantees, plan: Plan) -> str:
    share, threshold = promised.participation.share, promised.participation.cost_threshold
    if not share:
        never_negative = plan.mechanism.payments == "never-negative"
        return NOTHING + (" but payments that are never negative" if never_negative else "")
    if threshold is None:
        return "taking part pays for everybody"
    worth = money(threshold * plan.study.privacy_cost(promised.privacy.epsilon), plan.study.currency)
    return f"taking part pays for {percent(share)} of people: those to whom this privacy is worth {worth} or less"


def _budget(promised: Guarantees, plan: Plan, players: int) -> Promise:
    """The cap holds whatever anybody does; only the average and the likely total assume anything."""
    expected, likely, cap = promised.budget.expected, promised.budget.likely, promised.budget.cap
    currency = plan.study.currency
    parts = []
    if likely is not None and (cap is None or likely < cap) and plan.failure_probability < 0.5:
        surely = percent(1 - 2 * plan.failure_probability)
        parts.append(f"with {surely} probability at most {money(likely, currency)}")
    if expected not in (None, cap):
        parts.append(f"on average {money(expected or 0.0, currency)} or less")
    if cap is None:
        return _promise("budget", promised, "; ".join(parts[::-1]) or NOTHING)
    certain = f"at most {money(cap, currency)} ({money(cap / players, currency)} each), whatever anybody does"
    if not parts:
        return Promise("budget", certain, "certain", ())
    both = _promise("budget", promised, f"{certain}; {', '.join(parts)}, given the assumptions")
    return replace(both, given="cap: nothing\nothers: {}")


def _width(plan: Plan) -> str:
    """The width of the response's range, beside which an error or a lie is large or small."""
    return f"{plan.study.response.high - plan.study.response.low:,g}"
