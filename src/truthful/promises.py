"""The five guarantees in words, always in the same order; and next to the paper's, at the same parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from truthful.bounds import Setting, published
from truthful.formatting import money, number, odds, percent, points, protects
from truthful.guarantees import (
    Accuracy,
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

COUNTING = "Counting also what privacy is worth to people, and that a few lie, "
#: How far a careless prediction is assumed to be off, as a part of the scale of answers.
CARELESS = 0.3

Compared = tuple[str, Callable[[Guarantees], float | None], Callable[[float], str]]


@dataclass(frozen=True)
class Promise:
    """A guarantee: what, how surely, assuming what. Where nothing is promised there is no probability.

    `given` says which part of the promise needs the assumptions, {} standing for them, where another part needs none.
    """

    name: str
    words: str
    probability: str
    assumptions: tuple[str, ...]
    given: str = "{}"


def promises(plan: Plan) -> tuple[Promise, ...]:
    """The promises of a plan."""
    return _promises(plan.guarantees, plan, plan.players)


def released_promises(release: Release, plan: Plan) -> tuple[Promise, ...]:
    """The promises that hold for those who took part. Where the result contradicts the declared beliefs, some are
    withdrawn.
    """
    found = Guarantees.from_record(release.guarantees)
    privacy, truthfulness, accuracy, *others = _promises(found, plan, release.players)
    privacy = replace(privacy, assumptions=tuple(release.guarantees["privacy"]["assumptions"]))
    if release.warnings:
        because = "the result contradicts the declared beliefs"
        truthfulness, accuracy = _nothing("truthfulness", because), _nothing("accuracy", because)
    return privacy, truthfulness, accuracy, *others


def wrong_beliefs(plan: Plan, found: Guarantees | None = None) -> tuple[str, ...]:
    """Sentences about people whose beliefs differ from the declared ones: by how much they may, and the effect.

    Where people are asked what the others will say, no beliefs about it are declared; `caveats` says what holds there.
    """
    truth, study = (found or plan.guarantees).truthfulness, plan.study
    if truth.centre_tolerance is None or study.levels is not None:
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
    quantity, far = (
        ("share of yes", points(off)) if yes_no else ("mean rating", number(2 * study.response_unit * off))
    )
    declared = " (beliefs.tolerance)" if study.tolerance else ""
    words = (
        f"The {quantity} that people expect, knowing their own answer, may be {far} off what is declared{declared}: "
        f"the truth still pays for {percent(truth.centre_share or 0.0)} of them."
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
    """State how much an answer says of the others, where people are asked what these will say; warn if it may be too
    little.
    """
    k = plan.guarantees.truthfulness.slope
    words = f"An answer moves what its giver expects of the others by {k:.2g} of it."
    if k < SMALL_SLOPE:
        words += f" Below {SMALL_SLOPE:g} that is little: truthfulness rests on people agreeing closely."
    return words


def caveats(plan: Plan) -> tuple[str, ...]:
    """The limits of asking people for predictions, in sentences: personal centres, careless predictions, levels."""
    tolerance = plan.guarantees.truthfulness.centre_tolerance
    known = () if tolerance is None else _limits_of_predictions(plan, tolerance)
    level = (
        "Nothing but predictions fixes the level: if all moved their answers and predictions by the same, none would "
        "lose by it."
    )
    # Which averages pay all answers alike, so that agreeing on them gains nothing.
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
    """Limits: how far her expectation may be from what she takes others to expect, and the effect of careless
    predictions on people who know of them. A share φ that is off by J moves the best answer by φJ/k.
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


def compare_promised(release: Release, plan: Plan) -> list[tuple[str, str, str]]:
    """Numbers of the guarantees as promised, and as they hold for those who answered."""
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
    """The numbers to compare: words, the number, and its format."""
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
    epsilon, what = promised.privacy.epsilon, promised.privacy.protects
    asked = plan.study.levels is not None
    said = "answer and prediction from any others" if asked else "answer from any other answer"
    words = (
        f"nobody who sees the result can tell your {said} with better than {odds(epsilon)} odds (ε = {epsilon:.4g})"
        if protects(epsilon)
        else f"practically no privacy: whoever sees the result may tell your {said} almost surely (ε = {epsilon:.4g})"
    )
    if what == "records":
        words += (
            ", nor your features from any others"
            if protects(epsilon)
            else ", and your features from any others"
        )
    elif "features" in (promised.privacy.not_protected or ()):
        words += "; your features are not protected: sums over everybody's are published as they are"
    return _promise("privacy", promised, words)


def _truth_of_numbers(promised: Guarantees, plan: Plan) -> Promise:
    """Truthfulness for numbers: a lie is measured by how far it moves the own prediction, in units of the response."""
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
    people, gained = percent(1 - plan.absent_share), money(truth.slack, study.currency)
    words = f"{_honesty(truth, study)}{COUNTING}for {people} of people no lie gains over {gained}"
    if truth.lie_in_answer is not None:
        words += f", and for nine in ten of them none of more than {number(truth.lie_in_answer)} gains at all"
    words += (
        f". In technical terms: no lie that moves the prediction made from an answer by more than {moved} (of "
        f"{_width(plan)}) pays"
    )
    if truth.lie_in_answer is None and truth.shading:
        words += "; more than one person in ten could give any answer without moving it so far"
    if truth.undeterred is not None:
        words += (
            f"; of all other answers that people could give, {percent(truth.undeterred, 0)} are not deterred"
        )
    return _promise("truthfulness", promised, words)


def _honesty(truth: Truthfulness, study: Study) -> str:
    """State the payment's effect on a typical person: honesty pays best on average, and a lie costs this much.

    Empty for a release of an earlier version, which lacks it.
    """
    if not truth.shading or truth.typical_pay is None:
        return ""
    agreed = "the declared beliefs hold" if study.levels is None else "people agree on what to expect"
    pay = money(truth.typical_pay, study.currency, 2 if truth.typical_pay >= 0.1 else None)
    first, *more = (money(lie.costs, study.currency) for lie in truth.shading)
    by = [f"{lie.by:.3g}" for lie in truth.shading]
    if study.kind == "yes-no":
        lie, further = "the other answer", ""
    elif study.kind == "rating":
        lie, further = "a rating that is one step off", "two steps off"
    else:
        width = f"{study.response.high - study.response.low:,g}"
        lie, further = f"shading an answer by {by[0]} (of {width})", f"by {by[-1]}"
    costs = f"{lie} costs a typical person {first} of {pay}" + (
        f", {further} it costs {more[0]}" if more else ""
    )
    return f"if nearly everybody else is honest and {agreed}, honesty pays best on average: {costs}. "


def _truth_of_predictions(promised: Guarantees, plan: Plan) -> Promise:
    """Truthfulness for numbers, where people are asked what the others will say: no lie of this size pays."""
    truth, study = promised.truthfulness, plan.study
    if truth.lie_in_answer is None or truth.slack is None:
        return _nothing(
            "truthfulness",
            "payments do not outweigh what this privacy is worth to people. More people would help",
        )
    return _promise(
        "truthfulness",
        promised,
        f"{_honesty(truth, study)}{COUNTING}for {percent(truth.share)} of people no lie gains over "
        f"{money(truth.slack, study.currency)}, and none of {number(truth.lie_in_answer)} (of {_width(plan)}) or more "
        f"gains at all, {_centre_clause(study)}",
    )


def _centre_clause(study: Study) -> str:
    what = "the share of yes" if study.kind == "yes-no" else "the average"
    return f"wherever they expect {what} to be: they are asked for it"


def _truth_of_shares(promised: Guarantees, plan: Plan) -> Promise:
    """Truthfulness for yes and no and for ratings: for whom the truth pays, by how much on average, and when not."""
    truth, study = promised.truthfulness, plan.study
    if truth.steps is None or truth.gain is None:
        return _nothing(
            "truthfulness",
            "the bonus does not outweigh what this privacy is worth to people. A larger bonus, another epsilon or more "
            "players would help",
        )
    people, lead = percent(truth.share), f"{_honesty(truth, study)}Even if a few lie, "
    earned = f"earns at least {money(truth.gain, study.currency)} more than"
    worth = "which is at least what this privacy is worth to them"
    if study.kind == "yes-no":
        words = f"{lead}for {people} of people the truth {earned} the other answer on average, {worth}"
    else:
        lies = "any lie" if truth.steps == 1 else f"any lie of {truth.steps} steps or more"
        words = f"{lead}for {people} of people the truth {earned} {lies} on average, {worth}"
    if study.levels is not None:
        words += f". This holds {_centre_clause(study)}"
    elif truth.switch is not None:
        typical = " for the average person" if study.features else ""
        if study.kind == "yes-no":
            words += f". Yes and no pay the same{typical} if {100 * truth.switch:.1f}% of the others say yes"
        else:
            mean = study.response.low + (study.response.high - study.response.low) * truth.switch
            words += f". The lowest and the highest rating pay the same{typical} if the others' mean is {number(mean)}"
    return _promise("truthfulness", promised, words)


def _accuracy(promised: Guarantees, plan: Plan) -> Promise:
    """Accuracy: errors next to those of the prior mean, which costs nothing; what was asked for comes first."""
    accuracy, study = promised.accuracy, plan.study
    if accuracy.rmse is None:
        return _nothing("accuracy", inaccurate_because(study) if study.shares is None else "")
    told = points if study.kind == "yes-no" else number
    errors = _errors(accuracy, plan)
    first, (guess, known) = errors[0], _prior_error(accuracy, study)
    if not first.average < guess:
        return _nothing(
            "accuracy",
            f"on average {first.what} off by up to {told(first.average)}, root mean square, and {known}, without "
            f"asking anybody, is off by {told(guess)}. More players or a larger epsilon would help",
        )
    averages = " and ".join(told(error.average) for error in errors)
    if any(error.most is None for error in errors):  # a release of an earlier version
        kinds = "; ".join(error.what for error in errors)
        words = f"on average over studies {kinds} off by {averages}, root mean square"
    else:
        bounds = [f"{error.what} off by at most {told(error.most or 0.0)}" for error in errors]
        bounds[0] += "" if study.shares is not None else f" (of {_width(plan)})"
        words = f"{'; '.join(bounds)}. On average over studies it is {averages}, root mean square"
    return _promise("accuracy", promised, words)


class _Error(NamedTuple):
    """A kind of error: words with their verb, the most, and the average."""

    what: str
    most: float | None
    average: float


def _errors(accuracy: Accuracy, plan: Plan) -> list[_Error]:
    """The errors that a plan is judged by, that which was asked for first."""
    study, rmse = plan.study, accuracy.rmse or 0.0
    alike = accuracy.prediction_rmse or rmse
    if study.shares is not None and accuracy.effect_rmse is None:
        what = "the share of yes is" if study.kind == "yes-no" else "the mean rating is"
        return [_Error(what, accuracy.quantile, rmse)]
    if study.levels is not None and not study.features:
        return [_Error("the average answer is", accuracy.quantile, rmse)]
    if study.shares is not None:
        what = "shares" if study.kind == "yes-no" else "mean ratings"
        found = [
            _Error(
                "each difference between people is", accuracy.effect_quantile, accuracy.effect_rmse or 0.0
            ),
            _Error(f"{what} of people like these are, taken together,", accuracy.prediction_quantile, alike),
        ]
    else:
        found = [
            _Error("any prediction (and the coefficients, in normalised units) is", accuracy.quantile, rmse),
            _Error(
                "predictions of people like these are, taken together,", accuracy.prediction_quantile, alike
            ),
        ]
    return found[::-1] if accuracy.of == "predictions" else found


def _prior_error(accuracy: Accuracy, study: Study) -> tuple[float, str]:
    """The first of these errors if nobody is asked, and the name of that guess."""
    if study.shares is not None:
        prior, known = study.shares.prior_error, "the middle of what is believed"
    elif study.levels is not None:
        of = "predictions" if accuracy.of == "predictions" else "coefficients"
        prior, known = study.levels.prior_error(of), "answering with what people expect"
    else:
        beliefs, known = model(study), "answering with the prior mean"
        prior = beliefs.mean_square if accuracy.of == "predictions" else beliefs.prior_square
    return study.response_unit * math.sqrt(prior), known


def expected_intervals(promised: Guarantees, study: Study) -> list[tuple[str, float, float | None]]:
    """Half the width of each interval of a release, and the effect it can detect; for shares of yes in points."""
    unit = 100 if study.kind == "yes-no" else 1
    return [
        (
            estimate.name if study.features or study.shares is not None else "average answer",
            unit * estimate.half_width,
            None if estimate.smallest_effect is None else unit * estimate.smallest_effect,
        )
        for estimate in promised.accuracy.numbers or ()
    ]


def precisions_table(
    promised: Guarantees, study: Study
) -> tuple[tuple[str, str, str], list[tuple[str, str, str]]]:
    """The widths of a release's intervals, and the effects they can detect: columns, and rows."""
    rows = [
        (name, f"± {number(half_width)}", "" if effect is None else number(effect))
        for name, half_width, effect in expected_intervals(promised, study)
    ]
    unit = ", points" if study.kind == "yes-no" else ""
    return ("estimate", f"95% interval{unit}", f"smallest effect, 80% power{unit}"), rows


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
    """Budget: the cap holds whatever anybody does; only the average and the likely total rest on assumptions."""
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
    # Pay grows with the length of features: this is an average, not a bound for each.
    head = money(cap / players, currency)
    certain = f"at most {money(cap, currency)} ({head} per person), whatever anybody does"
    if not parts:
        return Promise("budget", certain, "certain", ())
    both = _promise("budget", promised, f"{certain}; {', '.join(parts)}, given the assumptions")
    return replace(both, given="cap: nothing\nothers: {}")


def _width(plan: Plan) -> str:
    """The width of the response's range, for comparison with an error or a lie."""
    return f"{plan.study.response.high - plan.study.response.low:,g}"


# Proved numbers next to the paper's published formulas


class PublishedComparison(NamedTuple):
    """A number of a guarantee in words, as proved and as published."""

    guarantee: str
    number: str
    proved: str
    published: str


def compare_published(plan: Plan) -> tuple[PublishedComparison, ...]:
    """The numbers of the five guarantees, in their order: proved, and by the paper's formulas."""
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

    def comparison(
        guarantee: str, what: str, function: str, show: Callable[[float], str]
    ) -> PublishedComparison:
        own = ours[function]
        values = (math.inf if own is None else own, float(getattr(published, function)(theirs)))
        return PublishedComparison(
            guarantee, what, *(show(v) if math.isfinite(v) else "no bound" for v in values)
        )

    return (
        comparison("privacy", "total ε", "privacy", lambda v: f"{v:.4g}"),
        comparison(
            "truthfulness",
            "a lie pays up to a change in prediction of",
            "lie_size",
            lambda v: number(unit * v),
        ),
        comparison("truthfulness", "and gains at most", "truthfulness", lambda v: money(v, currency)),
        comparison("accuracy", "error of coefficients", "accuracy", lambda v: number(unit * math.sqrt(v))),
        comparison("participation", "share who gain by joining", "joining_threshold", join),
        comparison("budget", "on average at most", "budget", lambda v: money(v, currency)),
        comparison("budget", "for certain at most", "budget_cap", lambda v: money(v, currency)),
    )


def published_penalty(plan: Plan) -> float:
    """The paper's γ: the value that minimises the paper's bound on the error."""
    s = _papers_setting(plan)
    tried = np.geomspace(1e-2, 1e3 * plan.players, 2000)
    return float(tried[np.argmin(published.accuracy(s.at(gamma=tried)))])


def _papers_setting(plan: Plan) -> Setting:
    """The plan's numbers, at which the paper's formulas for random halves are evaluated.

    The paper pays everybody the same base; it is set to a typical person's, as ours follows the length of features.
    """
    mechanism = plan.number_mechanism
    s = setting(plan.study, mechanism, plan.answering, plan.absent_share, plan.failure_probability)
    length = plan.guarantees.truthfulness.typical_length or 1.0
    return s.at(a=float(mechanism.base(np.array(length))))
