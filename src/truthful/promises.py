"""The five guarantees in words: always these, in this order; and beside the paper's, at the same parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from truthful.bounds import Setting, published
from truthful.formatting import money, number, odds, percent, points
from truthful.guarantees import (
    Guarantees,
    Truthfulness,
    inaccurate_because,
    model,
    setting,
    untruthful_because,
)
from truthful.plan import Plan
from truthful.planner.asked_planning import SMALL_SLOPE
from truthful.release import Release
from truthful.study import Study

#: How far a careless prediction is taken to be off, of the scale of answers.
CARELESS = 0.3

Compared = tuple[str, Callable[[Guarantees], float | None], Callable[[float], str]]


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


def promises(plan: Plan) -> tuple[Promise, ...]:
    """What a plan promises."""
    return _promises(plan.guarantees, plan, plan.players)


def released_promises(release: Release, plan: Plan) -> tuple[Promise, ...]:
    """What holds for those who took part. Where the result contradicts the declared beliefs, some is withdrawn."""
    found = Guarantees.from_record(release.guarantees)
    privacy, truthfulness, accuracy, *others = _promises(found, plan, release.players)
    privacy = replace(privacy, assumptions=tuple(release.guarantees["privacy"]["assumptions"]))
    if release.warnings:
        because = "the result contradicts the declared beliefs"
        truthfulness, accuracy = _nothing("truthfulness", because), _nothing("accuracy", because)
    return privacy, truthfulness, accuracy, *others


def otherwise(plan: Plan, found: Guarantees | None = None) -> tuple[str, ...]:
    """What is said for people whose beliefs differ from the declared ones: how far they may, and what that does."""
    truth, study = (found or plan.guarantees).truthfulness, plan.study
    if truth.centre_tolerance is None:
        return ()
    of_kind = _otherwise_of_numbers if study.shares is None else _otherwise_of_shares
    return of_kind(truth, study, truth.centre_tolerance)


def _otherwise_of_numbers(truth: Truthfulness, study: Study, off: float) -> tuple[str, ...]:
    of_whom = " of people like them" if study.features else ""
    far = off < study.response.high - study.response.low
    may_be = f"may be {number(off)} off" if far else "may be anything at all instead of"
    declared = f"People's idea of the average answer{of_whom} {may_be} what is declared"
    if study.tolerance:
        declared += " (beliefs.tolerance): what is said of lies allows for it."
    else:
        moved = number((truth.centre_lie or 0.0) * study.response_unit)
        gained = money(truth.centre_slack or 0.0, study.currency)
        declared += (
            f", if they agree on the rest: then no lie that moves a prediction by more than {moved} pays, and none "
            f"gains over {gained}."
        )
    if truth.centre_amplification is None:
        return declared, "Some answers move no prediction: there a wrong centre moves the best answer far."
    words = f"A centre that is wrong by 1 moves the best answer by {number(truth.centre_amplification)}."
    if truth.slope_tolerance is None:
        return declared, words
    return (
        declared,
        words,
        f"Or, with the right centre, people may be wrong by {number(truth.slope_tolerance)} about how far one answer "
        "moves the average that they expect; or half as wrong about both.",
    )


def _otherwise_of_shares(truth: Truthfulness, study: Study, off: float) -> tuple[str, ...]:
    yes_no = study.kind == "yes-no"
    what, far = (
        ("share of yes", points(off)) if yes_no else ("mean rating", number(2 * study.response_unit * off))
    )
    declared = " (beliefs.tolerance)" if study.tolerance else ""
    words = (
        f"The {what} that people expect, knowing their own answer, may be {far} off what is declared{declared}: the "
        f"truth still pays for {percent(truth.centre_share or 0.0)} of them."
    )
    if not yes_no or truth.expects_yes is None or truth.expects_no is None:
        return (words,)
    typical = " with average features" if study.features else ""
    return (
        words,
        f"The study declares that people{typical} expect a share of {100 * truth.expects_yes:.1f}% if they would say "
        f"yes themselves, and {100 * truth.expects_no:.1f}% if they would say no.",
    )


def slope_words(plan: Plan) -> str:
    """How much an answer says of the others, where people are asked what these will say; in doubt a warning."""
    k = plan.guarantees.truthfulness.slope
    words = f"An answer moves what its giver expects of the others by {k:.2g} of it."
    if k < SMALL_SLOPE:
        words += f" Below {SMALL_SLOPE:g} that is little: truthfulness rests on people agreeing closely."
    return words


def caveats(plan: Plan) -> tuple[str, ...]:
    """What asking people for predictions does not do, in sentences: personal centres, careless predictions, levels."""
    tolerance = plan.guarantees.truthfulness.centre_tolerance
    known = () if tolerance is None else _limits_of_predictions(plan, tolerance)
    level = (
        "Nothing but predictions fixes the level: if all moved their answers and predictions by the same, none would "
        "lose by it."
    )
    # Which averages pay all answers alike, so that nothing is gained by agreeing on them.
    mechanism, (least, most) = plan.asked_mechanism, plan.study.prediction_range
    ends = (-math.inf, math.inf) if mechanism is None else mechanism.plausible
    low, high = (least + (most - least) / 2 * (end + 1) for end in ends)
    told = [
        f"{word} {end:.3g}%" if plan.study.kind == "yes-no" else f"{word} {number(end)}"
        for word, end in (("below", low), ("above", high))
        if least < end < most
    ]
    if told:
        level += f" Only where the average answer is {' or '.join(told)} do all answers pay alike."
    return *known, level


def _limits_of_predictions(plan: Plan, tolerance: float) -> tuple[str, str]:
    """How far what she expects may be from what she takes others to expect, and what careless predictions do to those
    who know of them: a share φ that is off by J moves what pays by φJ/k.
    """
    truth, study = plan.guarantees.truthfulness, plan.study
    if study.kind == "yes-no":
        apart, lie = points(tolerance), "the other answer"
        too_high = f"{10 * tolerance * 100:.2g} of 100"
        harm = (
            f"one in ten too high by {too_high} is enough to make no the better answer for whoever knows it"
        )
    else:
        apart = number(tolerance)
        lie = "such a lie" if study.kind == "rating" else f"a lie of {number(truth.lie_in_answer or 0.0)}"
        off = CARELESS * (study.response.high - study.response.low)
        harm = (
            f"with one in ten too high by {number(off)}, whoever knows it gains most by an answer "
            f"{number(off / 10 / truth.slope)} too low"
        )
    return (
        "Wherever a person expects the average, she must take others to expect it there too: where she thinks they are "
        f"off by {apart} or more, {lie} can pay, even if privacy is worth nothing to her.",
        f"Predictions must be careful: {harm}. So none is shown or filled in beforehand, and they are paid for.",
    )


def promised_and_found(release: Release, plan: Plan) -> list[tuple[str, str, str]]:
    """Numbers of the guarantees as they were promised, and as they hold for those who answered."""
    before, now = Guarantees.from_record(release.promised), Guarantees.from_record(release.guarantees)
    return compare_guarantees(before, now, plan)


def compare_guarantees(before: Guarantees, now: Guarantees, plan: Plan) -> list[tuple[str, str, str]]:
    """Numbers of two guarantees side by side."""
    rows = []
    for words, of, tell in _comparisons(plan):
        first, second = ("nothing" if value is None else tell(value) for value in (of(before), of(now)))
        rows.append((words, first, second))
    return rows


def _comparisons(plan: Plan) -> list[Compared]:
    """What is compared: words, the number, and how it is told."""
    study, yes_no = plan.study, plan.study.kind == "yes-no"

    def amount(value: float) -> str:
        return money(value, study.currency)

    found: list[Compared]
    if study.shares is not None:
        unit, told = (100, "percentage points") if yes_no else (1, "root mean square")
        what = "the share of yes" if yes_no else "the mean rating"

        def error(value: float) -> str:
            return number(unit * value)

        found = [("What the truth earns more than a lie, at least", lambda g: g.truthfulness.gain, amount)]
        if not yes_no:
            found.append(("Steps from which no lie pays", lambda g: g.truthfulness.steps, "{:g}".format))
        if study.features:
            found.append((f"Error of differences, {told}", lambda g: g.accuracy.effect_rmse, error))
        found.append((f"Error of {what}, {told}", lambda g: g.accuracy.prediction_rmse, error))
    else:
        found = [("Lies from which on none pays", lambda g: g.truthfulness.lie_in_answer, number)]
        if study.levels is None:
            moved = "Largest lie that may pay, as a change in prediction"
            found = [
                (moved, lambda g: g.truthfulness.lie, lambda v: number(v * study.response_unit)),
                ("Answers that nothing deters", lambda g: g.truthfulness.undeterred, lambda v: percent(v, 0)),
            ]
        if study.levels is not None and not study.features:
            found.append(("Error of the average, root mean square", lambda g: g.accuracy.rmse, number))
        else:
            found += [
                ("Error of coefficients, root mean square", lambda g: g.accuracy.rmse, number),
                ("Error of predictions, root mean square", lambda g: g.accuracy.prediction_rmse, number),
            ]
    return [*found, ("Most that all payments can cost", lambda g: g.budget.cap, amount)]


def _promises(promised: Guarantees, plan: Plan, players: int) -> tuple[Promise, ...]:
    of_predictions = _truth_of_predictions if plan.study.levels is not None else _truth_of_numbers
    truthfulness = of_predictions if plan.study.shares is None else _truth_of_shares
    return (
        _privacy(promised, plan),
        truthfulness(promised, plan),
        _accuracy(promised, plan),
        _participation(promised, plan),
        _budget(promised, plan, players),
    )


def _promise(name: str, promised: Guarantees, words: str) -> Promise:
    group = getattr(promised, name)
    probability = "certain" if group.probability == 1 else percent(group.probability)
    return Promise(name, words, probability, group.assumptions)


def _nothing(name: str, because: str = "") -> Promise:
    return Promise(name, f"nothing is promised{because and f': {because}'}", "", ())


def _privacy(promised: Guarantees, plan: Plan) -> Promise:
    epsilon, protects = promised.privacy.epsilon, promised.privacy.protects
    said = (
        "answer from any other answer"
        if plan.study.levels is None
        else "answer and prediction from any others"
    )
    words = (
        f"nobody who sees the result can tell your {said} with better than "
        f"{odds(epsilon)} odds (ε = {epsilon:.4g})"
    )
    if protects == "records":
        words += ", nor your features from any others"
    elif "features" in (promised.privacy.not_protected or ()):
        words += "; your features are not protected: sums over everybody's are published as they are"
    return _promise("privacy", promised, words)


def _truth_of_numbers(promised: Guarantees, plan: Plan) -> Promise:
    """A lie counts by how far it moves the own prediction, here in units of the response."""
    truth, study = promised.truthfulness, plan.study
    if truth.lie is None or truth.slack is None:
        return _nothing("truthfulness", untruthful_because(study, plan.number_mechanism, plan.absent_share))
    moved = number(truth.lie * study.response_unit)
    if not truth.share > 0:
        return _nothing(
            "truthfulness",
            f"only lies that move a prediction by more than {moved} would cost, and no answer does. A smaller epsilon "
            "or absent_share, a larger score_weight or more players would help",
        )
    answer = truth.lie_in_answer
    if answer is None:
        in_answers = "some changes of an answer move no prediction, and are free"
    elif not answer < study.response.high - study.response.low:
        in_answers = f"predictions follow answers weakly (slope {number(truth.slope)})"
    else:
        in_answers = f"in answers that is about {number(answer)}"
    if truth.undeterred is None:
        free = f"a lie that large is possible for {percent(truth.share, 0)} of people with typical features"
    else:
        free = f"of all other answers that people could give, {percent(truth.undeterred, 0)} are not deterred"
    return _promise(
        "truthfulness",
        promised,
        f"no lie that moves the prediction made from an answer by more than {moved} (of {_width(plan)}) pays, and none "
        f"gains over {money(truth.slack, study.currency)}, for {percent(1 - plan.absent_share)} of people; "
        f"{in_answers}; {free}",
    )


def _truth_of_predictions(promised: Guarantees, plan: Plan) -> Promise:
    """Of numbers, where people are asked what the others will say: no lie of this size pays."""
    truth, study = promised.truthfulness, plan.study
    if truth.lie_in_answer is None or truth.slack is None:
        return _nothing(
            "truthfulness",
            "payments do not outweigh what this privacy is worth to people. More people would help",
        )
    return _promise(
        "truthfulness",
        promised,
        f"no lie of {number(truth.lie_in_answer)} (of {_width(plan)}) or more pays for {percent(truth.share)} of "
        f"people, and none gains over {money(truth.slack, study.currency)}, {_wherever(study)}",
    )


def _wherever(study: Study) -> str:
    what = "the share of yes" if study.kind == "yes-no" else "the average"
    return f"wherever they expect {what} to be: they are asked for it"


def _truth_of_shares(promised: Guarantees, plan: Plan) -> Promise:
    """Of yes and no, and of ratings: for whom the truth pays, how much more it earns on average, and when not."""
    truth, study = promised.truthfulness, plan.study
    if truth.steps is None or truth.gain is None:
        return _nothing(
            "truthfulness",
            "the bonus does not outweigh what this privacy is worth to people. A larger bonus, another epsilon or more "
            "players would help",
        )
    earned = f"earns at least {money(truth.gain, study.currency)} more than"
    worth = "which is at least what this privacy is worth to them"
    people = f"pays for {percent(truth.share)} of people"
    if study.kind == "yes-no":
        words = f"the truth {people}: on average it {earned} the other answer, {worth}"
    else:
        lies = "no lie" if truth.steps == 1 else f"no lie of {truth.steps} steps or more"
        told = "any" if truth.steps == 1 else "such a"
        words = f"{lies} {people}: on average the truth {earned} {told} lie, {worth}"
    if study.levels is not None:
        words += f". This holds {_wherever(study)}"
    elif truth.switch is not None:
        typical = " for the average person" if study.features else ""
        if study.kind == "yes-no":
            words += f". Yes and no pay the same{typical} if {100 * truth.switch:.1f}% of the others say yes"
        else:
            mean = study.response.low + (study.response.high - study.response.low) * truth.switch
            words += f". The lowest and the highest rating pay the same{typical} if the others' mean is {number(mean)}"
    return _promise("truthfulness", promised, words)


def _accuracy(promised: Guarantees, plan: Plan) -> Promise:
    """Errors next to what the prior mean has, which costs nothing."""
    accuracy, rmse, study = promised.accuracy, promised.accuracy.rmse, plan.study
    if rmse is None:
        return _nothing("accuracy", inaccurate_because(study) if study.shares is None else "")
    told, judged, bound = number, rmse, "the error of predictions"
    if study.shares is not None:
        told, bound = points if study.kind == "yes-no" else number, "the error"
        judged = rmse if accuracy.effect_rmse is None else accuracy.effect_rmse
        prior, known = study.shares.prior_error, "the middle of what is believed"
    elif study.levels is not None:
        prior, known = study.levels.prior_error("coefficients"), "answering with what people expect"
    else:
        prior, known = model(study).prior_square, "answering with the prior mean"
    guess = study.response_unit * math.sqrt(prior)
    if not judged < guess:
        return _nothing(
            "accuracy",
            f"the bound on {bound} is {told(judged)}, and {known}, without asking anybody, is off by {told(guess)}. "
            "More players or a larger epsilon would help",
        )
    alike = accuracy.prediction_rmse or rmse
    if study.shares is not None and accuracy.effect_rmse is None:
        what = "the share of yes" if study.kind == "yes-no" else "the mean rating"
        words = f"{what} is off by at most {told(rmse)}, root mean square"
    elif study.shares is not None:
        what = "shares" if study.kind == "yes-no" else "mean ratings"
        words = (
            f"each difference between people is off by at most {told(judged)}, root mean square; {what} of people like "
            f"these by {told(alike)}"
        )
    elif study.levels is not None and not study.features:
        words = f"the average answer is off by at most {number(rmse)} (of {_width(plan)}), root mean square"
    else:
        words = (
            f"any prediction (and the coefficients, in normalised units) is off by at most {number(rmse)} (of "
            f"{_width(plan)}), root mean square; predictions of people like these by {number(alike)}"
        )
    return _promise("accuracy", promised, words)


def _participation(promised: Guarantees, plan: Plan) -> Promise:
    share, threshold = promised.participation.share, promised.participation.cost_threshold
    if not share:
        nothing = _nothing("participation")
        if plan.mechanism.payments == "never-negative":
            return replace(nothing, words=f"{nothing.words} but payments that are never negative")
        return nothing
    words = "taking part pays for everybody"
    if threshold is not None:
        worth = money(threshold * plan.study.privacy_cost(promised.privacy.epsilon), plan.study.currency)
        words = f"taking part pays for {percent(share)} of people: those to whom this privacy is worth {worth} or less"
    return _promise("participation", promised, words)


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
        if not parts:
            return _nothing("budget")
        return _promise("budget", promised, "; ".join(parts[::-1]))
    # It is more for people with longer features: so much on average, and not for each.
    head = money(cap / players, currency)
    certain = f"at most {money(cap, currency)} ({head} per person), whatever anybody does"
    if not parts:
        return Promise("budget", certain, "certain", ())
    both = _promise("budget", promised, f"{certain}; {', '.join(parts)}, given the assumptions")
    return replace(both, given="cap: nothing\nothers: {}")


def _width(plan: Plan) -> str:
    """The width of the response's range, beside which an error or a lie is large or small."""
    return f"{plan.study.response.high - plan.study.response.low:,g}"


# Proved, beside the paper's published formulas


class Beside(NamedTuple):
    """One number of a guarantee in words, as proved and as published."""

    guarantee: str
    number: str
    proved: str
    published: str


def beside_published(plan: Plan) -> tuple[Beside, ...]:
    """The numbers of the five guarantees, in their order, proved and as the paper's formulas give them."""
    theirs = _papers_setting(plan).at(gamma=published_penalty(plan))
    found = plan.guarantees
    ours = {
        "privacy": found.privacy.epsilon,
        "lie_size": found.truthfulness.lie,
        "truthfulness": found.truthfulness.slack,
        "accuracy": found.accuracy.mean_squared_error,
        "joining_threshold": found.participation.cost_threshold,
        "budget": found.budget.expected,
        "budget_cap": found.budget.cap,
    }
    study = plan.study
    unit, currency = study.response_unit, study.currency

    def join(threshold: float) -> str:
        return percent(float(study.costs.cdf(threshold)))

    def both(guarantee: str, what: str, function: str, show: Callable[[float], str]) -> Beside:
        own = ours[function]
        values = (math.inf if own is None else own, float(getattr(published, function)(theirs)))
        return Beside(guarantee, what, *(show(v) if math.isfinite(v) else "no bound" for v in values))

    return (
        both("privacy", "total ε", "privacy", lambda v: f"{v:.4g}"),
        both(
            "truthfulness",
            "a lie pays up to a change in prediction of",
            "lie_size",
            lambda v: number(unit * v),
        ),
        both("truthfulness", "and gains at most", "truthfulness", lambda v: money(v, currency)),
        both("accuracy", "error of coefficients", "accuracy", lambda v: number(unit * math.sqrt(v))),
        both("participation", "share who gain by joining", "joining_threshold", join),
        both("budget", "on average at most", "budget", lambda v: money(v, currency)),
        both("budget", "for certain at most", "budget_cap", lambda v: money(v, currency)),
    )


def published_penalty(plan: Plan) -> float:
    """The paper's γ: the one at which the paper's bound on the error is least."""
    s = _papers_setting(plan)
    tried = np.geomspace(1e-2, 1e3 * plan.players, 2000)
    return float(tried[np.argmin(published.accuracy(s.at(gamma=tried)))])


def _papers_setting(plan: Plan) -> Setting:
    """The plan's numbers, at which the paper's formulas for random halves are evaluated.

    The paper pays everybody the same base: that of a typical person, where ours follows the length of features.
    """
    mechanism = plan.number_mechanism
    s = setting(plan.study, mechanism, plan.answering, plan.absent_share, plan.failure_probability)
    length = plan.guarantees.truthfulness.typical_length or 1.0
    return s.at(a=float(mechanism.base(np.array(length))))
