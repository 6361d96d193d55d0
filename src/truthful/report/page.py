"""What all pages share: their templates, what was asked, and what was declared, as sentences."""

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
from truthful.study.sections import Feature

if TYPE_CHECKING:
    from jinja2 import Environment

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
    """A page about a study of so many people, from its template, with its style inside."""
    return (
        _templates()
        .get_template(template)
        .render(study=study, asked=_question(study, players), assumptions=assumptions, **context)
    )


@cache
def _templates() -> Environment:
    """All text that is put into a page is escaped: a name from a study is never markup."""
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
    """What the guarantees assume, each once, in their order."""
    return list(dict.fromkeys(words for promise in promised for words in promise.assumptions))


# What was asked


def _question(study: Study, players: int) -> Facts:
    """How people could answer, and what else is known of them."""
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
    """The declared beliefs that assumptions name, and how wrong these may be."""
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
    """What is believed of shares or mean ratings, each feature's largest effect included."""
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
