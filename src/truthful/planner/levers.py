"""Changes of the study itself that make a plan feasible: each is carried out and solved for.

Fewer features, fewer levels, assigned features, protecting answers in place of records, a smaller range, asking for
predictions. A lever is listed if it meets the goals, with the error or the cost that results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from truthful.check import Floats
from truthful.errors import TruthfulError
from truthful.formatting import number
from truthful.guarantees import model
from truthful.planner.asked_planning import RATIOS, AskedSearch, require_slope, solve_asked_for
from truthful.planner.goals import Goals
from truthful.planner.number_planning import candidates, solve_numbers_for
from truthful.planner.panel import Panel, panel_of_design
from truthful.planner.planning import SPARE, Infeasible, Remedy, Solution, describe_purchase, in_units
from truthful.planner.share_planning import ShareSearch, solve_shares_for
from truthful.planner.terms import Choice, Terms
from truthful.study import Study
from truthful.study.features import Levels, RawColumns

#: The ε at which features are compared, to find the best one to leave out.
TYPICAL_EPSILON = 0.3
#: A range of answers may shrink to this part of it, no further.
LEAST_RANGE = 1 / 3
#: The size of a change that is a decision, not a number.
DECISION = math.log(2)

#: The declaration of a study, to be edited in place.
Record = dict[str, Any]


@dataclass(frozen=True)
class Lever:
    """A change of a study: its name and new value, words that begin a sentence, its size, and the edit.

    merged: the feature whose levels are merged, and their new names.
    """

    goal: str
    value: Any
    words: str
    change: float
    edit: Callable[[Record], None]
    merged: tuple[str, dict[str, str]] = ("", {})

    def apply(self, study: Study) -> Study:
        """The study with this change; InputError if it does not fit."""
        record = deepcopy(study.declaration())
        self.edit(record)
        beliefs = record["beliefs"]
        if beliefs.get("sure") is not None:
            # Recomputed from `sure`.
            beliefs.pop("prior_sd", None), beliefs.pop("prior", None)
        return Study.from_declaration(record)


def worth_changing(study: Study, goals: Goals) -> bool:
    """Whether to try changes of the study: players are given, and the goal needs people to be asked at all."""
    target = goals.error(study)
    return goals.players is not None and (target is None or target < goals.prior_error(study))


def levers(problem: Infeasible, study: Study, goals: Goals, panel: Panel | None) -> Iterator[Remedy]:
    """Remedies from levers that make the goals feasible with the given players."""
    fewer = (
        remedy
        for lever in _fewer_features(study, goals, panel)
        if (remedy := _pull(lever, study, goals, panel))
    )
    yield from filter(None, (next(fewer, None),))
    for lever in (
        *_fewer_levels(study, panel),
        *_assign_features(study),
        *_answers_alone(study),
        *_smaller_range(problem, study, goals),
        *_predictions(study, goals),
    ):
        yield from filter(None, (_pull(lever, study, goals, panel),))


def _pull(lever: Lever, study: Study, goals: Goals, panel: Panel | None) -> Remedy | None:
    """The remedy, if the lever makes the goals feasible."""
    # With a budget, say what it buys, which tells more than that it is enough.
    free = goals if goals.budget is None else replace(goals, accuracy=None)
    try:
        changed = lever.apply(study)
        found = _solve(changed, free, _people(lever, study, changed, panel, goals.accuracy_of))
    except TruthfulError:
        return None
    if found is None or (goals.accuracy is not None and not found.rmse <= goals.accuracy * (1 - SPARE)):
        return None
    return Remedy(
        lever.goal, lever.value, f"{lever.words}{_describe_result(goals, found)}.", lever.change, changed
    )


def _describe_result(goals: Goals, found: Solution) -> str:
    """Say what results: the error at the same budget; without a budget, `describe_purchase`."""
    if goals.budget is None:
        return describe_purchase(goals, found)
    return f": the error is then {in_units(found.study, found.rmse)} at the same budget"


def _solve(study: Study, goals: Goals, panel: Panel | None) -> Solution | None:
    players = goals.players or 0
    if study.levels is not None and panel is not None:
        require_slope(study.levels)
        return solve_asked_for(study, goals, players, panel)
    if study.shares is not None and panel is not None:
        return solve_shares_for(study, goals, players, panel)
    goals = replace(goals, panel=panel)
    known = panel is not None or model(study).least_eigenvalue > 0
    return solve_numbers_for(study, goals, players) if known and candidates(study, goals) else None


def _people(lever: Lever, study: Study, changed: Study, panel: Panel | None, of: str) -> Panel | None:
    """The panel of the changed study: the same people, unless features are assigned or there are none left."""
    if changed.protects != "answers":
        return None
    if panel is None or panel.roster is None or changed.assigned or not changed.features:
        share = 1.0 if panel is None else panel.response_share
        return panel_of_design(changed, share, "coefficients" if of == "centre" else of)
    columns = _raw(study, panel.roster)
    name, names = lever.merged
    if names:
        columns[name] = np.array([names.get(level, level) for level in columns[name].tolist()])
    return Panel(
        changed, changed.normalise(columns, len(panel.roster)), panel.response_share, panel.accuracy_of
    )


def _raw(study: Study, X: Floats) -> RawColumns:
    """Features in raw units from normalised ones."""
    encoding, columns = study.declared.encoding, {}
    for feature, place in zip(encoding.features, encoding.slices, strict=True):
        codes = X[:, place] * encoding.scale
        if isinstance(feature, Levels):
            last = codes.min(axis=1) < -0.5
            at = np.where(last, feature.columns, codes.argmax(axis=1))
            columns[feature.name] = np.array(feature.levels)[at]
        else:
            columns[feature.name] = feature.low + (codes[:, 0] + 1) / 2 * (feature.high - feature.low)
    return columns


# The levers


def _fewer_features(study: Study, goals: Goals, panel: Panel | None) -> Iterator[Lever]:
    """Leave out the least useful feature, the two least useful, all but one, all."""
    names, d = [feature.name for feature in study.features], study.dimension

    def without(left: list[str]) -> Lever:
        told = (
            " and ".join(f"`{name}`" for name in left)
            if len(left) < 3 or len(left) < len(names)
            else "all features"
        )
        columns = sum(feature.columns for feature in study.declared.encoding.features if feature.name in left)
        change = math.log(d / max(d - columns, 0.5))

        def edit(record: Record) -> None:
            _leave_out(record, study, left)

        return Lever("features", ", ".join(left), f"Leave out {told}", change, edit)

    def error(name: str) -> float:
        lever = without([name])
        try:
            changed = lever.apply(study)
            return _rough_error(changed, goals, _people(lever, study, changed, panel, goals.accuracy_of))
        except TruthfulError:
            return math.inf

    names.sort(key=error)
    for count in sorted({1, 2, len(names) - 1, len(names)} & set(range(1, len(names) + 1))):
        yield without(names[:count])


def _rough_error(study: Study, goals: Goals, panel: Panel | None) -> float:
    """The error at a typical ε with one liar, ignoring sampling of respondents."""
    players = goals.players or 0
    alpha, epsilon = np.array([1 / players]), np.array([TYPICAL_EPSILON])
    if panel is not None and study.levels is not None:
        return AskedSearch(study, goals, panel.roughly, players, 1.0, RATIOS[0]).errors(alpha, epsilon).item()
    if panel is not None and study.shares is not None:
        return ShareSearch(study, goals, panel.roughly, players, 1.0, "sup").errors(alpha, epsilon).item()
    goals = replace(goals, panel=panel)
    choice = Choice(alpha, 0.5, study.beliefs.radius)
    terms = [Terms(study, goals, players, name) for name in candidates(study, goals)]
    return min(way.rough_error(choice, epsilon).item() for way in terms)


def _leave_out(record: Record, study: Study, left: list[str]) -> None:
    """Remove features and all that is declared about them."""
    d, encoding = study.dimension, study.declared.encoding
    gone = [
        column
        for feature, place in zip(encoding.features, encoding.slices, strict=True)
        if feature.name in left
        for column in range(place.start, place.stop)
    ]
    kept = [column for column in range(d) if column not in gone]
    record["features"] = [feature for feature in record["features"] if feature["name"] not in left]
    beliefs, design = record["beliefs"], record["design"]
    for table in ("centre", "effect", "expected"):
        if isinstance(beliefs.get(table), dict):
            of = {key: value for key, value in beliefs[table].items() if key.split("=")[0] not in left}
            beliefs[table] = of or None
    if not record["features"]:
        beliefs["effect"] = beliefs["expected"] = None
    # Codes carry a factor 1/√d.
    grown = d / max(len(kept), 1)
    if design.get("least_eigenvalue") is not None:
        design["least_eigenvalue"] = min(1 / max(len(kept), 1), design["least_eigenvalue"] * grown)
    if "matrix" in design:
        design["matrix"] = (np.array(design["matrix"])[np.ix_(kept, kept)] * grown).tolist()


def _fewer_levels(study: Study, panel: Panel | None) -> Iterator[Lever]:
    """Merge the two rarest levels of a feature; where people are yet to be drawn, the last two of the longest list."""
    many = [feature for feature in study.features if len(feature.levels or ()) > 2]
    roster = None if panel is None else panel.roster
    if not many or not (study.assigned or roster is not None):
        return
    people = {} if roster is None else _raw(study, roster)

    def count(feature: str, level: str) -> int:
        return int(np.count_nonzero(people[feature] == level)) if people else 0

    # The pair of levels that fewest people have.
    pairs = [(f, a, b) for f in many for a, b in combinations((f.levels or ())[::-1], 2)]
    rarest = min(
        pairs, key=lambda pair: (sum(count(pair[0].name, x) for x in pair[1:]), -len(pair[0].levels or ()))
    )
    (b, a), name = rarest[1:], rarest[0].name
    joined = f"{a} or {b}"

    def edit(record: Record) -> None:
        feature = next(section for section in record["features"] if section["name"] == name)
        feature["levels"] = [joined if x == a else x for x in feature["levels"] if x != b]
        if feature.get("reference") in (a, b):
            feature["reference"] = joined
        labels = feature.get("level_labels") or {}
        if a in labels or b in labels:
            labels[joined] = _either(labels.pop(a, a), labels.pop(b, b))
        for table in ("centre", "expected"):
            declared = record["beliefs"].get(table)
            if isinstance(declared, dict):
                both = [declared.pop(f"{name}={x}", 0.0) for x in (a, b)]
                declared |= {f"{name}={joined}": sum(both) / 2} if any(both) else {}

    change = math.log(study.dimension / (study.dimension - 1))
    words = f"Merge the levels {a!r} and {b!r} of `{name}`"
    yield Lever("levels", f"{name}={joined}", words, change, edit, (name, dict.fromkeys((a, b), joined)))


def _either(a: Any, b: Any) -> Any:
    """The label of two levels that are merged, in every language of theirs."""
    if isinstance(a, str) and isinstance(b, str):
        return f"{a} / {b}"
    languages = a if isinstance(a, dict) else b
    labels = [label if isinstance(label, dict) else dict.fromkeys(languages, label) for label in (a, b)]
    return {language: " / ".join(label[language] for label in labels) for language in languages}


def _assign_features(study: Study) -> Iterator[Lever]:
    if study.features and not study.assigned:
        words = 'Assign features at random, if they can be (design.kind = "uniform")'
        yield Lever(
            "design", "uniform", words, DECISION, lambda record: record.update(design={"kind": "uniform"})
        )


def _answers_alone(study: Study) -> Iterator[Lever]:
    if study.protects == "records" and not any(feature.sensitive for feature in study.features):
        words = 'Protect answers, and not features (privacy.protects = "answers")'
        privacy = {"protects": "answers"}
        yield Lever("protects", "answers", words, DECISION, lambda record: record.update(privacy=privacy))


def _smaller_range(problem: Infeasible, study: Study, goals: Goals) -> Iterator[Lever]:
    """Shrink the range of answers: errors are in proportion to it, if nothing is declared in raw units."""
    best = next((remedy.value for remedy in problem.remedies if remedy.goal == "accuracy"), None)
    if goals.accuracy is None or best is None or study.kind != "number":
        return
    low, high = study.response.low, study.response.high
    part = goals.accuracy / best * (1 - 2 * SPARE)
    if not LEAST_RANGE <= part < 1:
        return
    width = float(f"{part * (high - low) * (1 - SPARE):.4g}")
    ends = {"low": (low + high - width) / 2, "high": (low + high + width) / 2}
    words = f"Ask about a range of {number(width, 4)} in place of {number(high - low)} (response.low and response.high)"
    change = math.log((high - low) / width)
    yield Lever("range", width, words, change, lambda record: record["response"].update(ends))


def _predictions(study: Study, goals: Goals) -> Iterator[Lever]:
    """Ask people for the centre, where tolerance of a wrong declared centre is what costs."""
    beliefs = study.declared.beliefs
    if beliefs.asked or beliefs.tolerance is None or goals.lie is not None or study.protects != "answers":
        return
    declared = _asked_beliefs(study)
    told = ", ".join(f"{name} = {value:g}" for name, value in declared.items() if isinstance(value, float))
    words = f'Ask people what the others will say (beliefs.centre = "predictions", {told})'

    def edit(record: Record) -> None:
        kept = {name: record["beliefs"].get(name) for name in ("share", "effect", "expected", "implausible")}
        record["beliefs"] = {**kept, **declared}

    yield Lever("centre", "predictions", words, DECISION, edit)


def _asked_beliefs(study: Study) -> Record:
    """Beliefs as wide as the declared ones: sure, spread, and the largest effect."""
    if study.shares is not None:
        wide = (study.shares.high - study.shares.low) / math.sqrt(12)
        return {"centre": "predictions", "sure": math.floor(wide * 1e4) / 1e4}
    beliefs, d = study.beliefs, study.dimension
    unit = study.response_unit / study.declared.encoding.scale
    sure = study.declared.beliefs.sure or unit * math.sqrt(beliefs.prior.variance(d))
    found = {"sure": sure, "spread": study.response_unit * math.sqrt(beliefs.noise_variance)}
    if study.features:
        found["effect"] = 2 * unit * beliefs.radius
    return {"centre": "predictions", **{name: float(f"{value:.3g}") for name, value in found.items()}}
