"""Consistency of a release: its numbers are recomputed from its statistics, its study and its plan.

Computed numbers are compared with stated ones of the same name. Sums of features and of instruments are not published:
where intervals need them, a stated interval must lie between those with no and with the largest possible sampling
error. docs/howto-verify.md says what every field is checked against.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from truthful.asked_release import AskedRelease, level_of
from truthful.errors import InputError, TruthfulError
from truthful.formatting import number
from truthful.guarantees import Guarantees
from truthful.moments import GRID, PRODUCT, TRANSFORM_UNIT, Sums, grid_features
from truthful.moments import sums as exact_sums
from truthful.one_release import SUM_UNIT, LeaveOneOut, OneRelease
from truthful.release.coefficients import INTERVAL_LEVEL
from truthful.release.publication import GOOD_RECORDS, payment_terms, what_follows
from truthful.release.release import Coefficient, Record, Release
from truthful.share_release import ShareRelease
from truthful.study import Study

if TYPE_CHECKING:
    from truthful.plan import Plan

#: Two computers may differ by this much of the largest number beside it.
ROUNDING = 1e-6
#: Bounds for very many people are computed from some of them.
BOUNDS_ROUNDING = 1e-3
#: Numbers below this are only rounding.
TINY = 1e-6
AGAIN = "It was changed: get the release again from where it was published."


class Between(NamedTuple):
    """A range of numbers."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"between {number(self.low, 6)} and {number(self.high, 6)}"


def require_consistent(release: Release) -> None:
    """Refuse a release whose numbers do not follow from its statistics and its study."""
    _require_consistent(release.model_dump_json())


@lru_cache(maxsize=8)  # a release is published once, and many payments are checked with it
def _require_consistent(content: str) -> None:
    release = Release.model_validate_json(content)
    study, stated = release.declared_study(), release.record()
    try:
        for computed in _recompute(release, study, release.mechanism(study)):
            _require_same(stated, computed, "what follows from its other numbers is")
    except TruthfulError:
        raise
    except (ArithmeticError, KeyError, TypeError, ValueError) as problem:
        raise InputError(
            f"The numbers of the release do not fit together ({problem}), so that nothing follows from them. {AGAIN}"
        ) from None


def require_planned(release: Release, plan: Plan) -> None:
    """Refuse a release that is inconsistent, or not one of this plan."""
    if release.plan_sha256 != plan.sha256:
        raise InputError(
            f"The release was made with plan {release.plan_sha256[:12]}…, and this is plan {plan.sha256[:12]}…. Give "
            "the plan that was settled."
        )
    mechanism = plan.mechanism
    computed: dict[str, Any] = {
        "study": {"name": plan.study.name, "sha256": plan.study.sha256},
        "epsilon": _epsilon(mechanism),
        "estimator": mechanism.estimator,
        "gram_share": mechanism.gram_share if mechanism.estimator == "noisy-statistics" else None,
        "payment": payment_terms(mechanism, plan.study.currency).model_dump(exclude_none=True),
        "promised": plan.guarantees.record(),
    }
    if mechanism.transform is not None:
        computed["instruments"] = {"transform": mechanism.transform}
    _require_same(release.record(), computed, "by its plan it is")
    if mechanism.protects == "records" or not plan.study.features:
        guaranteed = _guarantees_for(plan, release.players).record()
        del guaranteed["privacy"]["assumptions"]
        _require_same(release.guarantees, guaranteed, "by its plan it is", "guarantees", off=BOUNDS_ROUNDING)
    require_consistent(release)


def _guarantees_for(plan: Plan, players: int) -> Guarantees:
    """The guarantees for this many people without known features."""
    from truthful.planner.panel import panel_for  # reads tables: slow for one payment

    panel = panel_for(plan.study, None, 1.0, "coefficients")
    return plan.guarantees_for(
        players, None if panel is None else panel.geometry(players, 1.0, plan.mechanism.norm)
    )


def _recompute(
    release: Release, study: Study, mechanism: OneRelease | ShareRelease | AskedRelease
) -> Iterator[dict[str, Any]]:
    """The parts of a release that can be recomputed, by name; first those that the rest is computed from."""
    level = release.level()
    privacy = {"epsilon": mechanism.epsilon, "probability": 1.0, "protects": mechanism.protects}
    assumed = release.guarantees["privacy"]["assumptions"]
    yield {
        "protects": mechanism.protects,
        "epsilon": _epsilon(mechanism),
        "statistics": {"unit": float(SUM_UNIT)},
        "noise": {"scale": mechanism.scale(study.believed), "matrix_scale": mechanism.matrix_scale},
        "instruments": None if mechanism.transform is None else {"unit": float(TRANSFORM_UNIT)},
        "interval_level": INTERVAL_LEVEL,
        "guarantees": {"privacy": privacy | {"assumptions": assumed if assumed == [GOOD_RECORDS] else []}},
        "promised": {"privacy": privacy | {"assumptions": []}},
    }
    stated = release.estimate()
    if stated is None:
        yield _kept_back(release, study)
        return
    estimate = _estimate(release, mechanism, study, stated)
    alike = mechanism.protects == "records" or not study.features
    sums = _sums_without_features(study, mechanism, release.players) if alike else None
    matrix = estimate.matrix if sums is None or mechanism.protects == "records" else sums.matrix
    yield {
        "statistics": {"matrix": None if matrix is None else [[str(int(k)) for k in row] for row in matrix]},
        "theta": estimate.theta.tolist(),
        "inverse": estimate.inverse.tolist(),
    }
    found = Guarantees.from_record(release.guarantees)
    if sums is not None:
        if study.levels is not None:
            level = level_of(study.levels, sums, ())
        follows = what_follows(study, mechanism, estimate, sums, found, None, level)
        yield {name: _as_written(part) for name, part in follows.items()}
        return
    mean = release.statistics.mean if level is None else level.mean
    if study.shares is not None and mean is None:
        raise InputError(
            f"The release has no statistics.mean, from which the share of everybody follows. {AGAIN}"
        )
    sums, widest = _extreme_sums(
        mechanism, release.players, np.eye(1, study.dimension)[0] if mean is None else mean
    )
    if level is not None and study.levels is not None and study.levels.strict:
        level = replace(level, weight=0, weighted=(0,) * study.dimension, offset=0)
    least, most = (
        what_follows(study, mechanism, estimate, some, found, None, level) for some in (sums, widest)
    )
    yield _bracket(release, study, least, most)


def _epsilon(mechanism: OneRelease | ShareRelease | AskedRelease) -> dict[str, Any]:
    records = mechanism.epsilon if mechanism.protects == "records" else None
    return {"answers": float(mechanism.vector_epsilon), "records": records}


def _estimate(
    release: Release,
    mechanism: OneRelease | ShareRelease | AskedRelease,
    study: Study,
    stated: LeaveOneOut,
) -> LeaveOneOut:
    """The estimate, from the released integers."""
    vector, answers = list(stated.vector), []
    if stated.predictions is not None:
        vector.append(stated.predictions)
    if mechanism.estimator == "noisy-statistics" and stated.matrix is not None:
        answers.append(stated.matrix[np.triu_indices(study.dimension)].tolist())
    return mechanism.estimate([*answers, vector], release.players, study.believed, stated.matrix)


def _sums_without_features(
    study: Study, mechanism: OneRelease | ShareRelease | AskedRelease, players: int
) -> Sums:
    """Sums over this many people who have no features; where records are protected only the count matters."""
    if study.features:
        return replace(Sums.zero(study.dimension), count=players)
    kx = grid_features(study.normalise({}, 1))
    person = exact_sums(kx, np.zeros(1), mechanism.transform, mechanism.norm)
    parts = {name: getattr(person, name) * players for name in ("matrix", "features", "instruments")}
    return replace(person, count=players, **parts)


def _extreme_sums(
    mechanism: OneRelease | ShareRelease | AskedRelease, players: int, mean: Any
) -> tuple[Sums, Sums]:
    """Sums with no sampling error, and with more than possible: Σ ζζᵀ is at most n, or nd by the sup norm.

    Of features they hold only the mean, small enough to give answers their largest variance.
    """
    none = Sums.zero(len(mean))
    features = none.features.copy()
    features[0] = [round(entry * GRID * 1024) for entry in mean]
    least = replace(none, count=players, features=features)
    largest = players * (len(mean) if mechanism.norm == "sup" else 1) * PRODUCT
    return least, replace(least, instruments=none.instruments + np.diag([largest] * len(mean)))


def _bracket(
    release: Release, study: Study, least: Mapping[str, Any], most: Mapping[str, Any]
) -> dict[str, Any]:
    """The numbers that follow although sums of features are unknown; shares of everybody only with the mean of
    features.
    """
    computed: dict[str, Any] = {
        name: _intervals(getattr(release, name), least[name], most[name])
        for name in ("coefficients", "differences", "shares")
        if name in least
    }
    if release.predictions is not None:
        follows = _as_written(least["predictions"])
        (follows["answer"],) = _intervals(
            [release.predictions.answer], [least["predictions"].answer], [most["predictions"].answer]
        )
        computed["predictions"] = follows
    if study.shares is None and release.predictions is None:
        computed["warnings"] = list(least["warnings"])
    return computed


def _intervals(
    stated: Sequence[Coefficient] | None, least: Sequence[Coefficient], most: Sequence[Coefficient]
) -> list[dict[str, Any]]:
    """Each number with an interval around it, between the narrowest and the widest possible."""
    highs = [row.high for row in stated or ()] or [math.nan] * len(least)
    return [
        {
            "name": row.name,
            "value": row.value,
            "low": 2 * row.value - high,
            "high": Between(row.high, wide.high),
        }
        for row, wide, high in zip(least, most, highs, strict=True)
    ]


def _kept_back(release: Release, study: Study) -> dict[str, Any]:
    """The numbers that follow from θ̂ where the matrix is not published, each in the middle of its interval."""
    theta = np.array(release.theta)
    found = {"coefficients": study.raw_coefficients(theta)}
    if release.differences is not None:
        found["differences"] = [(name, float(row @ theta)) for name, row in study.differences]
    return {
        part: [
            {"name": name, "value": value, "low": 2 * value - row.high}
            for (name, value), row in zip(values, getattr(release, part), strict=True)
        ]
        for part, values in found.items()
    }


def _as_written(part: Any) -> Any:
    """A part of a release as in its file."""
    if isinstance(part, Record):
        return part.model_dump(mode="json")
    return [_as_written(entry) for entry in part] if isinstance(part, tuple) else part


def _require_same(
    stated: Any, computed: Any, source: str, place: str = "", scale: float = 0.0, off: float = ROUNDING
) -> None:
    """Refuse a stated value that differs from the computed one, and say where; scale is that of numbers beside it."""
    if isinstance(computed, Mapping):
        fields = stated if isinstance(stated, Mapping) else {}
        parts = [(name, fields.get(name), value) for name, value in computed.items()]
    elif isinstance(computed, Sequence) and not isinstance(computed, str | Between):
        told: Sequence[Any] = stated if isinstance(stated, list | tuple) else ()
        if len(told) != len(computed):
            raise InputError(f"The release states {len(told)} {place}; {source} {len(computed)}. {AGAIN}")
        parts = [(_name(entry, at), told[at], entry) for at, entry in enumerate(computed)]
    else:
        if not _same(stated, computed, scale, off):
            raise InputError(
                f"The release states {place} = {_describe(stated)}; {source} {_describe(computed)}. {AGAIN}"
            )
        return
    alike = not isinstance(computed, Mapping) or "value" in computed  # numbers in one unit
    beside = max((abs(entry) for _, _, entry in parts if alike and _is_number(entry)), default=0.0)
    for name, stated_entry, entry in parts:
        _require_same(stated_entry, entry, source, f"{place}.{name}" if place else name, beside, off)


def _name(part: Any, place: int) -> str:
    return part["name"] if isinstance(part, Mapping) and "name" in part else str(place)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(stated: Any, computed: Any, scale: float, off: float) -> bool:
    if not _is_number(stated):
        return bool(stated == computed)
    if isinstance(computed, Between):
        room = off * max(abs(computed.low), abs(computed.high))
        return bool(computed.low - room <= stated <= computed.high + room)
    return _is_number(computed) and bool(abs(stated - computed) <= off * max(scale, abs(computed), TINY))


def _describe(value: Any) -> str:
    return (
        number(value, 6) if _is_number(value) else str(value) if isinstance(value, Between) else repr(value)
    )
