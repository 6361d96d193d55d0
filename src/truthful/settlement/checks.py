"""What is checked of those who answered before anything is drawn, from features and public numbers alone.

Answers are not looked at: whatever is refused here is refused whatever anybody said. Where records are protected,
features are not looked at either: only how many people there are counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from truthful.asked_release import AskedRelease, mean_features
from truthful.bounds import asked_bounds
from truthful.bounds.share_bounds import believed_rows, group_beliefs
from truthful.check import Floats
from truthful.errors import Option, Refused, WorseThanPromised
from truthful.formatting import money, number
from truthful.geometry import Geometry, Measuring, coarse, effects_of, leverages, measure
from truthful.guarantees import Guarantees, payable_to_all
from truthful.intake.intake import LevelCounts
from truthful.moments import GRID, PRODUCT, Sums, instruments_on_grid
from truthful.one_release import LARGEST_LEVERAGE, OneRelease, SumRelease, require_invertible
from truthful.plan import Plan
from truthful.planner.panel import difference_rows
from truthful.share_release import ShareRelease
from truthful.study import Study

#: A level that fewer people have is not published: with two or three, sums all but give their features away.
FEWEST_ALIKE, FEWEST_TOGETHER = 10, 3
#: How much more than promised may be found: of lies, and of anything else, for rounding.
SPARE_LIE, SPARE = 0.05, 1e-6
#: Up to so many people everybody's own numbers are measured; of more, bounds from sums alone, if they are enough.
MEASURED = 500_000


def require_people(plan: Plan, players: int) -> None:
    """Refuse more people than the budget covers, and fewer than anything can be told from."""
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
    """Where answers are protected, the features of those who take part are published: no answer may decide who does."""
    if mechanism.protects == "answers" and on_bad == "drop":
        raise Refused(
            Option("on_bad", "drop"),
            " would leave people out because of what they answered, and sums of everybody's features are published: "
            "that would give such answers away. Use ",
            Option("on_bad", "clip"),
            ", or correct the file.",
        )


def require_whole_answers(study: Study, on_bad: str) -> None:
    """Between two answers there is none to move a bad one to."""
    if study.shares is not None and on_bad == "clip":
        raise Refused(
            Option("on_bad", "clip"),
            f" moves numbers into their range, and the answers are of kind {study.kind!r}. Correct the file, and use ",
            Option("on_bad", "error"),
            ".",
        )


def require_common_levels(study: Study, cells: LevelCounts) -> tuple[str, ...]:
    """Refuse levels that very few people have, unless features are no secret; gives warnings of rare pairs of them."""
    declared = study.declared.privacy
    if study.assigned or not study.publishes_matrix or (declared is not None and declared.features_public):
        return ()
    for feature in study.features:
        counts = cells.levels.get(feature.name)
        if counts is None or feature.levels is None or counts.min() >= FEWEST_ALIKE:
            continue
        at = int(np.argmin(counts))
        raise Refused(
            f"Only {counts[at]} of those who answered have {feature.name} = {feature.levels[at]!r}, and sums over "
            f"features are published: fewer than {FEWEST_ALIKE} people would be given away by them. Merge the level "
            "with another, declare publish_matrix = false under [privacy], or features_public = true if features are "
            "no secret."
        )
    rare = [
        f"{one} and {other}"
        for (one, other), counts in cells.pairs.items()
        if ((counts > 0) & (counts < FEWEST_TOGETHER)).any()
    ]
    if not rare:
        return ()
    return (
        f"Fewer than {FEWEST_TOGETHER} people share some combination of {'; '.join(rare)}: the published sums say much "
        "of their features.",
    )


def people_measured(
    plan: Plan, mechanism: SumRelease, sums: Sums, people: Callable[[], Iterator[tuple[Any, Any, Floats]]]
) -> tuple[Geometry, Floats | None]:
    """The geometry of those who answered, and their features on the grid unless they are very many.

    Nobody may be more than half of what is known of people like her.
    """
    require_invertible(sums.matrix)
    if sums.count > MEASURED:
        return _many_measured(plan, mechanism, sums, people), None
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
    """Refuse people of whom somebody could owe money: differences weigh more among them than in the plan."""
    mechanism = plan.mechanism
    if not isinstance(mechanism, AskedRelease) or believed is None:
        return
    if not payable_to_all(mechanism, believed[:, :2]):
        raise Refused(
            "The features of those who answered lie further apart than those the plan was made for, so that its base "
            "payment does not cover every score. Plan again with the roster: nothing was released."
        )


def _many_measured(
    plan: Plan, mechanism: SumRelease, sums: Sums, people: Callable[[], Iterator[tuple[Any, Any, Floats]]]
) -> Geometry:
    """From sums alone, if what follows from them is as good as promised; else everybody is looked at, part by part."""
    encoding = plan.study.declared.encoding
    least = 1 / encoding.scale if encoding.intercept else 0.0  # ‖x‖ is at least that of the intercept
    found = coarse(sums, least, mechanism.norm)
    if not isinstance(mechanism, OneRelease):
        return _many_with_beliefs(plan, found, sums, people)
    if found.leverage <= LARGEST_LEVERAGE:
        promised = plan.guarantees_for(sums.count, found)
        if _covers_cap(plan, promised) and not _less(plan, promised):
            return found
    linear = mechanism.scoring.linear
    measuring = Measuring(sums, mechanism.base_payment, mechanism.score_weight, mechanism.clip, linear)
    for rows, ids, kx in people():
        _require_company(measuring.add(kx, instruments_on_grid(kx, mechanism.transform)), rows, ids)
    return measuring.geometry()


def _many_with_beliefs(
    plan: Plan, found: Geometry, sums: Sums, people: Callable[[], Iterator[tuple[Any, Any, Floats]]]
) -> Geometry:
    """Bounds from sums, and what people believe, part by part: without features all believe the same."""
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
    raise Refused(
        f"More than half of what is known about people like player {ids[at].as_py()!r} (row {rows[at]}) is she "
        "herself, so that others' answers say too little of her. Merge her level with another, drop the feature, or "
        "leave her out, and settle again: nothing was released."
    )


def require_promised(plan: Plan, found: Guarantees, accept_less: bool) -> None:
    """Refuse to settle for less than was promised, unless the analyst accepts it. The cap holds in any case."""
    promised = plan.guarantees
    cap, most = found.budget.cap, promised.budget.cap
    if cap is not None and most is not None and not _covers_cap(plan, found):
        raise Refused(
            f"Payments could add up to {money(cap, plan.study.currency)} for those who answered, and the plan promises "
            f"{money(most, plan.study.currency)} at most: their features are longer than those it was made for. Plan "
            "again with the roster."
        )
    less = _less(plan, found)
    if less and not accept_less:
        mechanism = plan.mechanism
        least = mechanism.flat if isinstance(mechanism, ShareRelease) else mechanism.base_payment
        flat = money(least, plan.study.currency, 4)
        raise WorseThanPromised(
            f"For those who answered less can be guaranteed than was promised: {'; '.join(less)}.",
            "Nothing was drawn. Collect more answers, or accept less (--accept-less), or give the study up and pay "
            f"everybody her base payment, which is {flat} or more.",
            promised,
            found,
        )


def _covers_cap(plan: Plan, found: Guarantees) -> bool:
    """Whether payments to those who answered cannot add up to more than the promised cap, if there is one."""
    cap, most = found.budget.cap, plan.guarantees.budget.cap
    return cap is None or most is None or cap <= most * (1 + SPARE)


def _less(plan: Plan, found: Guarantees) -> list[str]:
    """In what the guarantees for those who answered fall short of the promised ones."""
    compared = [("lies pay up to", "truthfulness", "lie")]
    if plan.study.levels is not None and plan.study.shares is None:
        # Where people are asked for predictions, lies about numbers are told in answers alone.
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
            shown = "any size" if now is None else number(now * factor)
            less.append(f"{words} {shown} instead of {number(before * factor)}")
    return less
