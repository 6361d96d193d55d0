"""What was asked, what was assumed, and of which release a report is: declarations as sentences."""

from __future__ import annotations

import hashlib

from truthful.files import pretty_json
from truthful.release import AnyRelease, Release, ReleaseOfHalves
from truthful.report.markup import command, facts, paragraph, section, text
from truthful.study import Study
from truthful.study.credibility import LevelBeliefs
from truthful.study.sections import Feature

DESIGNS = {
    "observed": "Features are as they come; nothing is assumed of how they are distributed.",
    "uniform": "Features are independent, uniform on their ranges and levels.",
    "covariance": "The second moments of the features are known.",
    "unit-ball": "Features are uniform on the unit ball.",
}


def question(study: Study, players: int) -> str:
    """What people were asked, and what else is known of them."""
    asked, response = study.response.question, study.response
    quoted = [] if asked is None else [f"<blockquote><p>{text(asked)}</p></blockquote>"]
    known = [(feature.name, _values(feature)) for feature in study.features]
    return section(
        "The question",
        *quoted,
        facts(
            [
                ("Answer", f"{response.name}, {_answers(study)}"),
                *([] if study.levels is None else [("Prediction", _predictions(study))]),
                *known,
                ("People", f"{players:,}"),
            ]
        ),
    )


def _answers(study: Study) -> str:
    if study.kind == "yes-no":
        return "yes or no"
    ends = f"from {study.response.low:,g} to {study.response.high:,g}"
    return f"a rating {ends}" if study.kind == "rating" else ends


def _predictions(study: Study) -> str:
    if study.kind == "yes-no":
        return "of 100 others, how many say yes"
    return f"the average answer of all others, {_answers(study).removeprefix('a rating ')}"


def _values(feature: Feature) -> str:
    if feature.levels is not None:
        return ", ".join(feature.levels)
    if feature.low is None or feature.high is None:
        return "a number, of a vector in the unit ball"
    return f"from {feature.low:,g} to {feature.high:,g}"


def assumed(study: Study, assumptions: list[str], otherwise: tuple[str, ...] = ()) -> str:
    """The numbered assumptions of the guarantees, the declared beliefs that they name, and how wrong these may be."""
    numbered = "\n".join(f"<li>{text(words[0].upper() + words[1:])}.</li>" for words in assumptions)
    return section(
        "What was assumed",
        f"<ol>\n{numbered}\n</ol>" if numbered else paragraph("Nothing."),
        paragraph("Declared before anybody was asked, and the same for everybody:"),
        facts(
            [
                *([("Design", DESIGNS[study.design.kind])] if study.features or study.shares is None else []),
                *_beliefs(study),
                ("Privacy costs", _costs(study)),
                *([("If people believed otherwise", " ".join(otherwise))] if otherwise else []),
            ]
        ),
    )


def _beliefs(study: Study) -> list[tuple[str, str]]:
    if study.levels is not None:
        return _asked(study, study.levels)
    if study.shares is not None:
        return _shares(study)
    return [("Prior", _prior(study)), ("Noise", _noise(study))]


def _asked(study: Study, levels: LevelBeliefs) -> list[tuple[str, str]]:
    """Where people are asked what the others will say: how sure they are, how answers scatter, and differences."""
    unit, told = (100.0, " percentage points") if study.kind == "yes-no" else (1.0, "")
    declared = study.declared.beliefs
    sure = f"{unit * (declared.sure or 0.0):.4g}{told}"
    rows = [
        (
            "Average",
            f"Nobody declares it: people are asked. They may be off by {sure}, one standard deviation.",
        )
    ]
    if declared.spread is not None:
        rows.append(
            ("Scatter", f"Answers differ from the average by {declared.spread:g}, one standard deviation.")
        )
    moves = f"An answer moves what its giver expects of the others by {levels.slope:.2g} of it."
    rows.append(("Slope", moves))
    if study.shares is not None:
        return [*rows, *_shares(study)]
    effects = (
        declared.effect
        if isinstance(declared.effect, dict)
        else {feature.name: declared.effect for feature in study.features}
    )
    each = [f"{name} changes the average by at most {effect:g}" for name, effect in effects.items()]
    return rows + ([("Effects", f"{'; '.join(each)}.")] if each else [])


def _shares(study: Study) -> list[tuple[str, str]]:
    """What is believed of shares or mean ratings, each feature's largest effect included."""
    section, (low, high) = study.declared.beliefs, study.declared.beliefs.share or (0.0, 1.0)
    width, yes_no = study.response.high - study.response.low, study.kind == "yes-no"

    def told(value: float) -> str:
        return f"{100 * value:.4g} percentage points" if yes_no else f"{width * value:.4g}"

    if yes_no:
        between = f"Of people with average features between {100 * low:.4g}% and {100 * high:.4g}% say yes"
    else:
        ends = (f"{study.response.low + width * end:.4g}" for end in (low, high))
        between = f"The mean rating of people with average features is between {' and '.join(ends)}"
    rows = [
        (
            "Beliefs",
            f"{between if study.features else between.replace(' with average features', '')}; all equally likely.",
        )
    ]
    effects = (
        section.effect
        if isinstance(section.effect, dict)
        else {f.name: section.effect for f in study.features}
    )
    each = [f"{name} changes that by at most {told(effect or 0.0)}" for name, effect in effects.items()]
    return rows + ([("Effects", f"{'; '.join(each)}.")] if each else [])


def _prior(study: Study) -> str:
    section = study.declared.beliefs
    about = "about 0" if section.centre is None else "about the declared centre"
    law = (
        "all equally likely"
        if section.prior_sd is None
        else f"normal, standard deviation {section.prior_sd:g}"
    )
    if section.sure is not None:
        unsure = f", and the analyst to {section.unsure:g} of what they think" if section.unsure else ""
        law += f" (people are sure of the average answer to {section.sure:g}{unsure})"
    return f"Normalised coefficients lie in the ball of radius R = {study.beliefs.radius:g} {about}; {law}."


def _noise(study: Study) -> str:
    section, M = study.declared.beliefs, study.beliefs.noise_bound
    law = (
        "uniform"
        if section.noise == "uniform"
        else f"normal, standard deviation {section.noise_sd or M / 2:g}"
    )
    return f"What features do not explain is at most M = {M:g}, normalised; {law}."


def _costs(study: Study) -> str:
    costs = study.declared.costs.model_dump(mode="json", exclude_none=True)
    kind, unit = costs.pop("kind"), {"quadratic": "ε²", "linear": "ε"}[costs.pop("privacy")]
    if kind == "empirical":
        return f"The declared quantiles, {study.currency} per {unit}."
    numbers = ", ".join(f"{name} {value:g}" for name, value in costs.items())
    return f"{kind.capitalize()} ({numbers}), {study.currency} per {unit}."


def identity(release: AnyRelease) -> str:
    """By what this release is told from any other."""
    file = hashlib.sha256(pretty_json(release.record()).encode()).hexdigest()
    return section(
        "Which release this is",
        facts(
            [
                ("Release", release.sha256),
                ("Plan", release.plan_sha256),
                ("Study", release.study.sha256),
                ("Estimator", _estimator(release)),
                ("ε", _levels(release)),
                ("Program", f"truthful {release.version}"),
            ]
        ),
        paragraph("The file release.json is unchanged if this prints the line below it:"),
        command(f"sha256sum release.json\n{file}  release.json"),
    )


def _estimator(release: AnyRelease) -> str:
    if isinstance(release, Release):
        return f"{release.estimator}; everybody is scored against everybody else"
    return f"{release.estimator.public}; halves: {release.estimator.peer}"


def _levels(release: AnyRelease) -> str:
    if isinstance(release, ReleaseOfHalves):
        return f"{release.epsilon.total:.6g} ({release.epsilon.public:.6g} + {release.epsilon.peer:.6g})"
    if release.epsilon.records is None:
        return f"{release.epsilon.answers:.6g}, of answers; features are not protected"
    return f"{release.epsilon.records:.6g}, of whole records"
