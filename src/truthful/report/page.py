"""The parts that all pages share: templates; question, beliefs and estimates as sentences and table rows.

A terminal shows the estimates in the same words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from truthful.charts.drawing import Chart, inline
from truthful.formatting import money, number, odds, protects
from truthful.promises import Promise
from truthful.study import Study
from truthful.study.credibility import LevelBeliefs
from truthful.study.declaration import Declaration
from truthful.study.sections import Feature

if TYPE_CHECKING:
    from jinja2 import Environment
from collections.abc import Sequence
from dataclasses import dataclass

from truthful.charts.estimate_charts import Effect
from truthful.formatting import interval, share, to_within
from truthful.release import Release
from truthful.release.release import Coefficient, Predictions
from truthful.study.features import AsGiven, Levels, Numeric

Facts = list[tuple[str, str]]

DESIGNS = {
    "observed": "Features are as they come; nothing is assumed of how they are distributed.",
    "uniform": "Features are independent, uniform on their ranges and levels.",
    "assigned": "Features are independent, with the probabilities that are declared.",
    "covariance": "The second moments of the features are known.",
    "unit-ball": "Features are uniform on the unit ball.",
}
#: Letters that HTML does not allow, escaped or not: control characters and surrogates.
_FORBIDDEN = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\ud800-\\udfff\\ufffe\\uffff]")
#: Signs that turn the direction of what follows; a name may not reach beyond itself.
_TURNING = re.compile("[\\u202a-\\u202e\\u2066-\\u2069]")


def render(template: str, study: Study, players: int, assumptions: list[str], **context: Any) -> str:
    """A page about a study of this many people, from its template, with its style inside."""
    return (
        _templates()
        .get_template(template)
        .render(study=study, asked=_question(study, players), assumptions=assumptions, **context)
    )


@cache
def _templates() -> Environment:
    """The templates, which escape all text: a name from a study is never markup."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("truthful.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_clean,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"draw": _draw, "sentence": sentence, "money": money, "number": number}
    templates.filters |= {"odds": odds, "protects": protects}
    return templates


def _clean(value: Any) -> Any:
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return _TURNING.sub("", _FORBIDDEN.sub("\ufffd", value))


def _draw(chart: Chart, name: str) -> str:
    from markupsafe import Markup

    return Markup(inline(chart, name))


def sentence(words: str) -> str:
    """Words with a capital. A symbol keeps its case: a capital η reads as an H."""
    return words[0].upper() + words[1:] if words[0].isascii() else words


def all_assumptions(promised: tuple[Promise, ...]) -> list[str]:
    """The assumptions of the guarantees, each once, in order."""
    return list(dict.fromkeys(words for promise in promised for words in promise.assumptions))


# What was asked


def _question(study: Study, players: int) -> Facts:
    """The question, how people could answer, and their features."""
    return [
        ("Answer", f"{study.response.name}, {_range_of_answers(study)}"),
        *([] if study.levels is None else [("Prediction", _range_of_predictions(study))]),
        *((feature.name, _range_of_feature(feature)) for feature in study.features),
        *(
            [("Interactions", "; ".join(map(" × ".join, pairs)))]
            if (pairs := study.declared.interactions)
            else []
        ),
        ("People", f"{players:,}"),
    ]


def _range_of_answers(study: Study) -> str:
    if study.kind == "yes-no":
        return "yes or no"
    ends = f"from {study.response.low:,g} to {study.response.high:,g}"
    return f"a rating {ends}" if study.kind == "rating" else ends


def _range_of_predictions(study: Study) -> str:
    if study.kind == "yes-no":
        return "of 100 others, how many say yes"
    low, high = study.response.low, study.response.high
    return f"the average answer of all others, from {low:,g} to {high:,g}"


def _range_of_feature(feature: Feature) -> str:
    cases = feature.levels or [f"{value:,g}" for value in feature.values or ()]
    if cases and feature.probabilities is not None:
        return ", ".join(
            f"{case} ({100 * p:.4g}%)" for case, p in zip(cases, feature.probabilities, strict=True)
        )
    if cases:
        return ", ".join(cases)
    if feature.low is None or feature.high is None:
        return "a number, of a vector in the unit ball"
    return f"from {feature.low:,g} to {feature.high:,g}"


# What was declared


def declared_beliefs(study: Study, otherwise: tuple[str, ...] = ()) -> Facts:
    """The declared beliefs that the assumptions name, and how wrong they may be."""
    return [
        *([("Design", DESIGNS[study.design.kind])] if study.features or study.shares is None else []),
        *_beliefs(study),
        ("Privacy costs", _costs(study)),
        *([("If people believed otherwise", " ".join(otherwise))] if otherwise else []),
    ]


def _beliefs(study: Study) -> Facts:
    if study.levels is not None:
        return _beliefs_of_asked(study, study.levels)
    if study.shares is not None:
        return _beliefs_of_shares(study)
    return [("Prior", _prior(study)), ("Noise", _noise(study))]


def _beliefs_of_asked(study: Study, levels: LevelBeliefs) -> Facts:
    """Where people are asked what the others will say: how sure they are, how answers scatter, and differences."""
    unit, points = (100.0, " percentage points") if study.kind == "yes-no" else (1.0, "")
    beliefs = study.declared.beliefs
    sure = f"{unit * (beliefs.sure or 0.0):.4g}{points}"
    average = f"Nobody declares it: people are asked. They may be off by {sure}, one standard deviation."
    rows = [("Average", average)]
    if beliefs.spread is not None:
        scatter = f"Answers differ from the average by {beliefs.spread:g}, one standard deviation."
        rows.append(("Scatter", scatter))
    moves = f"An answer moves what its giver expects of the others by {levels.slope:.2g} of it."
    rows.append(("Slope", moves))
    if study.shares is not None:
        return [*rows, *_beliefs_of_shares(study)]
    return [*rows, *_effects(study, "the average", lambda effect: f"{effect:g}")]


def _beliefs_of_shares(study: Study) -> Facts:
    """Beliefs about shares or mean ratings, with each feature's largest effect."""
    low, high = study.declared.beliefs.share or (0.0, 1.0)
    least, width = study.response.low, study.response.high - study.response.low
    average = " with average features" if study.features else ""
    if study.kind == "yes-no":
        believed = f"Of people{average} between {100 * low:.4g}% and {100 * high:.4g}% say yes"
        effects = _effects(study, "that", lambda effect: f"{100 * effect:.4g} percentage points")
    else:
        ends = f"{least + width * low:.4g} and {least + width * high:.4g}"
        believed = f"The mean rating of people{average} is between {ends}"
        effects = _effects(study, "that", lambda effect: f"{width * effect:.4g}")
    return [("Beliefs", f"{believed}; all equally likely."), *effects]


def _effects(study: Study, what: str, write: Callable[[float], str]) -> Facts:
    """The largest effect of each feature, if there are any."""
    words = [
        f"{name} changes {what} by at most {write(most)}" for name, most in study.declared.effects.items()
    ]
    return [("Effects", f"{'; '.join(words)}.")] if words else []


def _prior(study: Study) -> str:
    beliefs, R = study.declared.beliefs, study.beliefs.radius
    about = "about 0" if beliefs.centre is None else "about the declared centre"
    sd = beliefs.prior_sd
    law = "all equally likely" if sd is None else f"normal, standard deviation {sd:g}"
    if beliefs.sure is not None:
        unsure = f", and the analyst to {beliefs.unsure:g} of what they think" if beliefs.unsure else ""
        law += f" (people are sure of the average answer to {beliefs.sure:g}{unsure})"
    return f"Normalised coefficients lie in the ball of radius R = {R:g} {about}; {law}."


def _noise(study: Study) -> str:
    beliefs, M = study.declared.beliefs, study.beliefs.noise_bound
    normal = f"normal, standard deviation {beliefs.noise_sd or M / 2:g}"
    law = "uniform" if beliefs.noise == "uniform" else normal
    return f"What features do not explain is at most M = {M:g}, normalised; {law}."


def _costs(study: Study) -> str:
    costs = study.declared.costs.model_dump(mode="json", exclude_none=True)
    kind, unit = costs.pop("kind"), {"quadratic": "ε²", "linear": "ε"}[costs.pop("privacy")]
    if kind == "empirical":
        return f"The declared quantiles, {study.currency} per {unit}."
    numbers = ", ".join(f"{name} {value:g}" for name, value in costs.items())
    return f"{kind.capitalize()} ({numbers}), {study.currency} per {unit}."


# What was found: published estimates, also as differences between people

INTERACTING = (
    "Features that interact with the one that differs are in their middle. With ×, it is by how much the first "
    "difference changes over the second."
)
NOT_ESTIMABLE = "Odds ratios are not estimable from what was released."

Row = tuple[str, str, str, str]


@dataclass(frozen=True)
class EstimateTable:
    """Estimates, each with the ends of its interval; `first` is the heading of the first column."""

    title: str
    first: str
    rows: tuple[Row, ...]


def coefficients_table(release: Release) -> EstimateTable:
    """The published coefficients."""
    rows = tuple((row.name, *interval(row.value, row.low, row.high)) for row in release.coefficients)
    levels = (
        "; levels against the mean of all" if any("levels" in feature for feature in release.features) else ""
    )
    return EstimateTable(f"Coefficients, per unit of each feature{levels}", "Coefficient", rows)


# Shares of yes, and mean ratings


def measure(study: Study) -> str:
    """The name of the estimate."""
    return "share of yes" if study.kind == "yes-no" else "mean rating"


def share_of_everybody(release: Release, study: Study) -> tuple[float, float, float]:
    """The share of everybody, or the mean rating, and the ends of its interval, cut to the possible range."""
    (row,) = release.shares or ()
    least, most = study.response.low, study.response.high
    value, low, high = (min(max(end, least), most) for end in (row.value, row.low, row.high))
    return value, low, high


def _write_everybody(release: Release, study: Study) -> tuple[str, str, str]:
    value, low, high = share_of_everybody(release, study)
    if study.kind != "yes-no":
        return interval(value, low, high)
    width = high - low
    return share(value, width), share(low, width), share(high, width)


def share_sentence(release: Release, study: Study) -> str:
    """The result for yes or no, or for ratings, in a sentence."""
    value, low, high = _write_everybody(release, study)
    if study.kind == "yes-no":
        return f"{value} say yes, between {low} and {high}."
    ends = f"from {study.response.low:g} to {study.response.high:g}"
    return f"The mean rating is {value}, between {low} and {high}, on the scale {ends}."


def share_tables(release: Release, study: Study) -> tuple[EstimateTable, ...]:
    """Shares, then differences between people, then odds ratios where there are any."""
    of_all = ("everybody", *_write_everybody(release, study))
    found = [EstimateTable(f"{measure(study).capitalize()}, {study.response.name}", "Of", (of_all,))]
    if study.features:
        found.append(differences_table(release, study))
    if release.odds_ratios is not None:
        rows = differences(release.odds_ratios, study)
        found.append(EstimateTable("Odds ratios of yes", "Between", _rows(rows)))
    return tuple(found)


def lacks_odds(release: Release, study: Study) -> bool:
    """Whether odds ratios are expected but could not be estimated."""
    return study.kind == "yes-no" and bool(study.features) and release.odds_ratios is None


def differences_title(study: Study) -> str:
    """The title of the table of differences."""
    if study.shares is None:
        return f"Differences in {study.response.name}"
    return f"Differences in the {measure(study)}{', percentage points' if study.kind == 'yes-no' else ''}"


def differences_table(release: Release, study: Study) -> EstimateTable:
    """The table of differences, the same for every kind of answer."""
    rows = differences(release.differences or (), study, in_points=study.kind == "yes-no")
    return EstimateTable(differences_title(study), "Difference", _rows(rows))


def explain_interactions(study: Study) -> str:
    """The meaning of differences of features that interact, if any do."""
    return INTERACTING if study.declared.interactions else ""


def differences(rows: Sequence[Coefficient], study: Study, in_points: bool = False) -> tuple[Effect, ...]:
    """Differences with their labels: the ends of a range, or a level and the reference."""
    names, unit = difference_labels(study), 100 if in_points else 1
    return tuple(Effect(names[row.name], unit * row.value, unit * row.low, unit * row.high) for row in rows)


def difference_labels(study: Study, told: Declaration | None = None) -> dict[str, str]:
    """What each difference is between, by its name: in words, or as people read it in `told`, with signs for words."""
    labelled = {} if told is None else {feature.name: feature for feature in told.features}
    each = {
        column.name: _label_levels(column, labelled.get(column.name))
        if isinstance(column, Levels)
        else [(column.name, _label_number(column, labelled.get(column.name)))]
        for column in study.declared.encoding.features
    }
    labels = {name: label for some in each.values() for name, label in some}
    for product in study.declared.encoding.products:
        for first, label in each[product.first.name]:
            labels |= {f"{first}:{second}": f"{label} × {by}" for second, by in each[product.second.name]}
    return labels


def _label_number(column: Numeric, told: Feature | None) -> str:
    if told is not None:
        return str(told.label or column.name)
    if isinstance(column, AsGiven):
        return f"{column.name}, 1 more"
    return f"{column.name}, from {column.low:,g} to {column.high:,g}"


def _label_levels(column: Levels, told: Feature | None) -> list[tuple[str, str]]:
    reference = column.reference or column.levels[0]
    if told is None:
        name, joint, words = column.name, ", not ", {}
    else:
        name, joint, words = str(told.label or column.name), " − ", dict(told.level_labels or {})
    last = words.get(reference, reference)
    return [
        (f"{column.name}={level}", f"{name}: {words.get(level, level)}{joint}{last}")
        for level in column.levels
        if level != reference
    ]


def _rows(effects: Sequence[Effect]) -> tuple[Row, ...]:
    return tuple((row.label, *interval(row.value, row.low, row.high)) for row in effects)


# Where people were asked what the others will say


def averages_sentence(found: Predictions) -> str:
    """The result for numbers, in a sentence."""
    value, low, high = interval(found.answer.value, found.answer.low, found.answer.high)
    predicted, *_ = interval(found.prediction.value, found.prediction.low, found.prediction.high)
    return (
        f"The average answer is {value}, between {low} and {high}; people predicted {predicted} on average."
    )


def averages_table(found: Predictions, study: Study) -> EstimateTable:
    """Answers and predictions with their intervals, and what people expected before they knew their own answers."""
    rows = _rows(averages(found))
    if found.centre is not None:
        width = found.prediction.high - found.prediction.low
        rows += (("expected beforehand", to_within(found.centre, width), "", ""),)
    return EstimateTable(f"Averages, {average_name(study)}", "Average of", rows)


def averages(found: Predictions) -> tuple[Effect, ...]:
    """The average answer and prediction, with their intervals."""
    named = ("answers", found.answer), ("predictions", found.prediction)
    return tuple(Effect(name, row.value, row.low, row.high) for name, row in named)


def average_name(study: Study) -> str:
    """The name of the average, with its unit."""
    return "percent of yes" if study.kind == "yes-no" else study.response.name
