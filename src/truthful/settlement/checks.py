"""Checks of those who answered, before anything is drawn, from features and public numbers alone.

Answers are not looked at: whatever is refused here is refused whatever anybody said. Where records are protected,
features are looked at only where the estimate rests on a declared design, and only to refuse features that contradict
it (`require_design`): only the analyst, who holds the records, learns of a refusal, and nothing is drawn or published.
If people follow the design it is rarer than one in a million, whoever takes part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from truthful.asked_release import AskedRelease, mean_features
from truthful.bounds import asked_bounds
from truthful.bounds.share_bounds import believed_rows, group_beliefs
from truthful.check import Floats
from truthful.errors import Option, Refused, SingledOut, WorseThanPromised
from truthful.formatting import money, number
from truthful.geometry import Geometry, GeometryTally, coarse_geometry, effects_of, leverages, measure
from truthful.guarantees import Guarantees, payable_to_all
from truthful.intake.intake import LevelCounts
from truthful.moments import GRID, PRODUCT, Sums, as_floats, instruments_on_grid
from truthful.one_release import LARGEST_LEVERAGE, OneRelease, SumRelease, require_invertible
from truthful.plan import Plan
from truthful.planner.panel import difference_rows
from truthful.share_release import ShareRelease
from truthful.study import Study
from truthful.study.features import INTERCEPT, Encoding, Interaction, Levels, Numeric

#: Yields rows, players and features on the grid, part by part.
FeatureParts = Callable[[], Iterator[tuple[Any, Any, Floats]]]
#: A level that fewer people have is not published, nor a pair of levels: with two or three people, sums nearly give
#: their features away.
FEWEST_ALIKE, FEWEST_TOGETHER = 10, 3
#: The chance of refusing people whose features do follow the declared design.
FALSE_ALARM = 1e-6
#: Slack beyond the promise: for lies, and for anything else, for rounding.
SPARE_LIE, SPARE = 0.05, 1e-6
#: Up to this many people everybody's own numbers are measured; beyond, bounds from sums alone, if good enough.
MEASURED = 500_000


def require_people(plan: Plan, players: int) -> None:
    """Refuse more people than the budget covers, and too few to estimate anything."""
    if players > plan.players:
        again = f"--players {players}" if plan.roster is None else "a roster of all of them"
        raise Refused(
            f"There are {players:,} reports, but the plan is for {plan.players:,} players and its budget "
            f"covers no more. Plan again with {again}."
        )
    fewest = 2 * plan.study.dimension + 2 if plan.mechanism.estimator == "instruments" else 2
    if players < fewest:
        raise Refused(
            f"There are {players} reports; from fewer than {fewest} nothing can be told of {plan.study.dimension} "
            "coefficients. Collect more and settle again: nothing was released."
        )


def require_no_dropping(mechanism: SumRelease, on_bad: str) -> None:
    """Refuse on_bad = "drop" where answers are protected: features of participants are published, so no answer may
    decide who takes part.
    """
    if mechanism.protects == "answers" and on_bad == "drop":
        raise Refused(
            Option("on_bad", "drop"),
            " would leave people out because of what they answered, and sums of everybody's features are published: "
            "that would give such answers away. Use ",
            Option("on_bad", "clip"),
            ", or correct the file.",
        )


def require_whole_answers(study: Study, on_bad: str) -> None:
    """Refuse on_bad = "clip" where no answers lie between two others."""
    if study.shares is not None and on_bad == "clip":
        raise Refused(
            Option("on_bad", "clip"),
            f" moves numbers into their range, and the answers are of kind {study.kind!r}. Correct the file, and use ",
            Option("on_bad", "error"),
            ".",
        )


def require_common_levels(study: Study, cells: LevelCounts) -> tuple[str, ...]:
    """Refuse rare levels, and rare pairs of levels that interact, unless features are no secret.

    Returns warnings of other rare pairs.
    """
    declared = study.declared.privacy
    if study.assigned or not study.publishes_matrix or (declared is not None and declared.features_public):
        return ()
    for names, levels, counts in _published_counts(study, cells):
        if counts.min() >= FEWEST_ALIKE:
            continue
        at = np.unravel_index(int(np.argmin(counts)), counts.shape)
        combination = " and ".join(
            f"{name} = {known[k]!r}" for name, known, k in zip(names, levels, at, strict=True)
        )
        raise Refused(
            f"Only {counts[at]} of those who answered have {combination}, and sums over features are published: "
            f"fewer than {FEWEST_ALIKE} people would be given away by them. Merge "
            f"{'the level' if len(at) == 1 else 'a level'} with another, declare publish_matrix = false under "
            "[privacy], or features_public = true if features are no secret."
        )
    rare = [
        f"{first} and {second}"
        for (first, second), counts in cells.pairs.items()
        if ((counts > 0) & (counts < FEWEST_TOGETHER)).any()
    ]
    if not rare:
        return ()
    return (
        f"Fewer than {FEWEST_TOGETHER} people share some combination of {'; '.join(rare)}: the published sums say much "
        "of their features.",
    )


def _published_counts(study: Study, cells: LevelCounts) -> Iterator[tuple[Any, ...]]:
    """The number of people with each level, and each pair of levels that interact: names, levels and counts."""
    levels = {feature.name: feature.levels for feature in study.features if feature.levels is not None}
    for name, counts in cells.levels.items():
        yield (name,), (levels[name],), counts
    together = {frozenset(pair) for pair in study.declared.interactions or ()}
    for pair, counts in cells.pairs.items():
        if frozenset(pair) in together:
            yield pair, tuple(levels[name] for name in pair), counts


@dataclass(frozen=True, eq=False)
class MeasuredPeople:
    """Findings from the features of those who answered: what can be guaranteed for them, warnings for the analyst,
    their largest difference from a declared design, and the features on the grid if they may be looked at and are not
    too many.
    """

    guarantees: Guarantees
    warnings: tuple[str, ...]
    difference: Difference | None
    features: Floats | None


def find_people(plan: Plan, sums: Sums, cells: LevelCounts, people: FeatureParts) -> MeasuredPeople:
    """Look at those who answered; refuse if nothing can be settled for them, whatever is accepted.

    Answers play no part. Where records are protected, features may only lead to a refusal.
    """
    require_people(plan, sums.count)
    difference = design_difference(plan.study, sums, cells)
    if plan.mechanism.protects == "records":
        require_design(plan, difference)
        return MeasuredPeople(plan.guarantees_for(sums.count), (), difference, None)
    warnings = require_common_levels(plan.study, cells)
    geometry, features = measure_people(plan, plan.mechanism, sums, people)
    return MeasuredPeople(plan.guarantees_for(sums.count, geometry), warnings, difference, features)


def measure_people(
    plan: Plan, mechanism: SumRelease, sums: Sums, people: FeatureParts
) -> tuple[Geometry, Floats | None]:
    """The geometry of those who answered, and their features on the grid unless they are very many.

    Nobody may be more than half of the evidence about people like her.
    """
    require_invertible(sums.matrix, plan.study.declared.encoding.column_names)
    if sums.count > MEASURED:
        return _measure_many(plan, mechanism, sums, people), None
    inverse = np.linalg.inv((sums.matrix / PRODUCT).astype(np.float64)).astype(np.float64)
    parts = []
    for rows, ids, kx in people():
        kz = instruments_on_grid(kx, mechanism.transform, mechanism.norm)
        _require_company(leverages(kx / GRID, kz / GRID, inverse), rows, ids)
        parts.append(kx)
    kx = np.concatenate(parts)
    kz = instruments_on_grid(kx, mechanism.transform, mechanism.norm)
    found, believed = measure(kx, kz, norm=mechanism.norm), _belief_rows(plan.study, kx, sums)
    _require_payable(plan, believed)
    effects = None if plan.study.shares is None else effects_of(kx, kz, difference_rows(plan.study))
    return replace(found, believed=believed, effects=effects), kx


def _belief_rows(study: Study, kx: Floats, sums: Sums) -> Floats | None:
    if study.levels is not None:
        rows = asked_bounds.level_rows(study.levels, kx / GRID, mean_features(sums))
        return asked_bounds.group_levels(rows)
    return None if study.shares is None else group_beliefs(believed_rows(study.shares, kx / GRID))


def _require_payable(plan: Plan, believed: Floats | None) -> None:
    """Refuse people among whom somebody could owe money: differences weigh more there than in the plan."""
    mechanism = plan.mechanism
    if not isinstance(mechanism, AskedRelease) or believed is None:
        return
    if not payable_to_all(mechanism, believed[:, :2]):
        raise Refused(
            "The features of those who answered lie further apart than those the plan was made for, so that its base "
            "payment does not cover every score. Plan again with the roster: nothing was released."
        )


def _measure_many(plan: Plan, mechanism: SumRelease, sums: Sums, people: FeatureParts) -> Geometry:
    """The geometry from sums alone, if its bounds are as good as promised; else everybody is measured, part by part."""
    encoding = plan.study.declared.encoding
    least = 1 / encoding.scale if encoding.intercept else 0.0  # ‖x‖ is at least the intercept's entry
    found = coarse_geometry(sums, least, mechanism.norm)
    if not isinstance(mechanism, OneRelease):
        return _measure_beliefs(plan, found, sums, people)
    if found.leverage <= LARGEST_LEVERAGE:
        promised = plan.guarantees_for(sums.count, found)
        if _covers_cap(plan, promised) and not _less(plan, promised):
            return found
    linear = mechanism.scoring.linear
    measuring = GeometryTally(sums, mechanism.base_payment, mechanism.score_weight, mechanism.clip, linear)
    for rows, ids, kx in people():
        _require_company(measuring.add(kx, instruments_on_grid(kx, mechanism.transform)), rows, ids)
    return measuring.geometry()


def _measure_beliefs(plan: Plan, found: Geometry, sums: Sums, people: FeatureParts) -> Geometry:
    """Bounds from sums, with people's beliefs gathered part by part; without features all believe the same."""
    study, believed = plan.study, None
    group = group_beliefs if study.levels is None else asked_bounds.group_levels
    for _, _, kx in people() if study.features else [(None, None, np.full((1, 1), float(GRID)))]:
        rows = _belief_rows(study, kx, sums)
        if rows is not None:
            believed = rows if believed is None else group(np.concatenate([believed, rows]))
    _require_payable(plan, believed)
    if study.shares is None:
        return replace(found, believed=believed)
    M, ZZ = ((part / PRODUCT).astype(np.float64) for part in (sums.matrix, sums.instruments))
    W = np.linalg.solve(M.T, difference_rows(study).T)
    lengths = np.sum(W**2, axis=0)
    effects = np.stack(
        [lengths, np.einsum("ik,ij,jk->k", W, ZZ, W), found.longest * np.sqrt(lengths)], axis=1
    )
    return replace(found, believed=believed, effects=effects)


def _require_company(h: Floats, rows: Any, ids: Any) -> None:
    if not len(h) or not h.max() > LARGEST_LEVERAGE:
        return
    at = int(np.argmax(h))
    raise SingledOut(
        f"More than half of what is known about people like player {ids[at].as_py()!r} (row {rows[at]}) is she "
        "herself, so that others' answers say too little of her. Merge her level with another, drop the feature, or "
        "leave her out, and settle again: nothing was released.",
        "More than half of what is known about people like somebody who answered is she herself, so that others' "
        "answers say too little of her. Nothing was released. Collect more answers from people like those who are few, "
        "or cancel the study.",
    )


@dataclass(frozen=True)
class Difference:
    """The largest difference between respondents' second moments and the declared ones, with words that locate it.

    `size` is in units of what chance allows.
    """

    size: float
    words: str


def design_difference(study: Study, sums: Sums, cells: LevelCounts) -> Difference | None:
    """The largest difference between respondents' features and the declared design; None if none is declared.

    If they follow it, no difference exceeds 1, except with probability `FALSE_ALARM`: Hoeffding's inequality for every
    entry of XᵀX/n, in which a square ranges over 1/d, any other product over 2/d, and all over 1 on the unit ball. A
    difference in one feature alone is reported before one of two together.
    """
    declared, encoding = study.second_moments, study.declared.encoding
    if declared is None or not encoding.features:
        return None
    d, found = encoding.dimension, as_floats(sums.features) / sums.count
    ranges = (2.0 - np.eye(d)) / d if encoding.scaled else np.ones((d, d))
    likely = ranges * math.sqrt(math.log(d * (d + 1) / FALSE_ALARM) / (2 * sums.count)) + 4 / GRID
    sizes = np.abs(found - declared) / likely
    alone, all_pairs = np.zeros((d, d), dtype=np.bool_), np.triu(np.ones((d, d), dtype=np.bool_))
    all_pairs[0, 0] = not encoding.intercept
    for place in encoding.slices:
        alone[place, place] = True
        alone[0, place] = alone[0, place] | encoding.intercept
    rows, columns = np.nonzero(alone if np.max(sizes[alone], initial=0.0) > 1 else all_pairs)
    worst = int(np.argmax(sizes[rows, columns]))
    i, j = int(rows[worst]), int(columns[worst])
    return Difference(float(sizes[i, j]), _describe_difference(study, found, declared, cells, (i, j)))


def _describe_difference(
    study: Study, found: Floats, declared: Floats, cells: LevelCounts, at: tuple[int, int]
) -> str:
    """Say how features differ from the design, at this entry of their second moments."""
    encoding = study.declared.encoding
    first, name = (encoding.column_names[column] for column in at)
    feature = next((term for term in encoding.terms if term.name == name), None)
    if isinstance(feature, Interaction) and first in (INTERCEPT, name):
        first, name = feature.first.name, feature.second.name
    if feature is None or isinstance(feature, Interaction) or first not in (INTERCEPT, name):
        now, before = (m[at] * encoding.scale**2 for m in (found, declared))
        return f"{first!r} and {name!r} go together: the mean product of their codes is {now:.3g}, not {before:.3g}"
    if isinstance(feature, Levels):
        shares, expected = (
            cells.levels[name] / cells.levels[name].sum(),
            level_shares(encoding, feature, declared),
        )
        level = int(np.argmax(np.abs(shares - expected)))
        return (
            f"{shares[level]:.1%} of them have {name} = {feature.levels[level]!r}, not {expected[level]:.1%}"
        )
    (mean, spread), (mean_before, spread_before) = (
        mean_and_spread(encoding, feature, m) for m in (found, declared)
    )
    if mean is None or mean_before is None:
        return f"{name!r} has the root mean square {number(spread)}, not {number(spread_before)}"
    if spread <= (feature.high - feature.low) / 1000:
        return f"{name!r} is {number(mean)} for everybody"
    return (
        f"{name!r} has mean {number(mean)} and standard deviation {number(spread)}, not {number(mean_before)} and "
        f"{number(spread_before)}"
    )


def mean_and_spread(encoding: Encoding, feature: Numeric, moments: Floats) -> tuple[float | None, float]:
    """The mean and the standard deviation of a number, from E[x xᵀ]; without an intercept None, and √E[v²]."""
    (column,) = range(encoding.dimension)[encoding.slices[encoding.features.index(feature)]]
    half, square = (feature.high - feature.low) / 2, float(moments[column, column]) * encoding.scale**2
    if not encoding.intercept:
        return None, half * math.sqrt(square)
    code = float(moments[0, column]) * encoding.scale**2
    return (feature.low + feature.high) / 2 + half * code, half * math.sqrt(max(0.0, square - code * code))


def level_shares(encoding: Encoding, feature: Levels, moments: Floats) -> Floats:
    """The share of each level, from E[x xᵀ]: with an intercept, a code's mean is its level's share less the last's."""
    k, place = len(feature.levels), encoding.slices[encoding.features.index(feature)]
    means = moments[0, place] * encoding.scale**2 if encoding.intercept else np.zeros(k - 1)
    last = (1 - means.sum()) / k
    return np.append(means + last, last)


def require_design(plan: Plan, difference: Difference | None) -> None:
    """Refuse features that contradict the declared design, where the estimate rests on it and would be wrong."""
    if plan.mechanism.estimator != "known-design" or difference is None or difference.size <= 1:
        return
    instead = (
        "If you assigned situations, settle with those that people were shown (`truthful assign` draws them)."
        if plan.study.assigned
        else "Correct the matrix, if it is wrong."
    )
    raise Refused(
        f"The features of those who answered contradict the declared design, {plan.study.design.kind!r}: "
        f"{difference.words}. By chance that happens in fewer than one study of a million, and the estimate, which "
        f"rests on the design, would be wrong. Nothing was drawn. {instead} If features are people's own, declare "
        "design.kind = 'observed' and plan again."
    )


def require_promised(plan: Plan, people: MeasuredPeople, players: int, accept_less: bool) -> None:
    """Refuse to settle for less than promised, unless the analyst accepts it. The cap holds in any case."""
    found, difference = people.guarantees, people.difference
    promised, why = plan.guarantees, ""
    if players < plan.answering:
        why = f"The plan is for {plan.answering:,} people, and {players:,} answered. "
    if plan.roster is None and difference is not None and difference.size > 1:
        why += (
            f"It was made for the declared design, from which features differ most here: {difference.words}. "
        )
    cap, most = found.budget.cap, promised.budget.cap
    if cap is not None and most is not None and not _covers_cap(plan, found):
        raise Refused(
            f"Payments could add up to {money(cap, plan.study.currency)} for those who answered, and the plan promises "
            f"{money(most, plan.study.currency)} at most: their features are longer than those it was made for. "
            f"{why}Nothing was drawn. Plan again with the roster."
        )
    less = _less(plan, found)
    if less and not accept_less:
        mechanism = plan.mechanism
        least = mechanism.flat if isinstance(mechanism, ShareRelease) else mechanism.base_payment
        flat = money(least, plan.study.currency, 4)
        raise WorseThanPromised(
            f"For those who answered less can be guaranteed than was promised: {'; '.join(less)}.",
            f"{why}Nothing was drawn. Collect more answers, or accept less (--accept-less), or give the study up and "
            f"pay everybody her base payment, which is {flat} or more.",
            promised,
            found,
        )


def _covers_cap(plan: Plan, found: Guarantees) -> bool:
    """Whether payments to respondents stay within the promised cap, if there is one."""
    cap, most = found.budget.cap, plan.guarantees.budget.cap
    return cap is None or most is None or cap <= most * (1 + SPARE)


def _less(plan: Plan, found: Guarantees) -> list[str]:
    """In what the guarantees for those who answered fall short of the promised ones."""
    compared = [("lies pay up to", "truthfulness", "lie")]
    if plan.study.levels is not None and plan.study.shares is None:
        # Where people are asked for predictions, lies about numbers are measured in answers.
        compared.append(("lies pay up to", "truthfulness", "lie_in_answer"))
    compared += [
        ("steps from which no lie pays are", "truthfulness", "steps"),
        ("the error of effects is up to", "accuracy", "effect_rmse"),
        ("the error of coefficients is up to", "accuracy", "rmse"),
        ("the error of predictions is up to", "accuracy", "prediction_rmse"),
    ]
    less = []
    for words, part, name in compared:
        now, before = (getattr(getattr(which, part), name) for which in (found, plan.guarantees))
        spare = SPARE_LIE if name.startswith("lie") else SPARE
        factor = plan.study.response_unit if name == "lie" else 1.0
        if before is not None and not (math.inf if now is None else now) <= before * (1 + spare):
            less.append(f"{words} {_instead(now and now * factor, before * factor)}")
    return less


def _instead(now: float | None, before: float) -> str:
    """Two numbers, with as many digits as tell them apart."""
    if now is None:
        return f"any size instead of {number(before)}"
    digits = next((k for k in range(3, 9) if number(now, k) != number(before, k)), 9)
    return f"{number(now, digits)} instead of {number(before, digits)}"
