"""An edited release is refused, unless the page on verifying says that nothing speaks against the number."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from support import both_studies, shares, studies

from truthful.errors import InputError, TruthfulError
from truthful.plan import Plan
from truthful.release import Release, verify
from truthful.release.consistency import require_consistent, require_planned
from truthful.report import report
from truthful.settlement import Settlement, settle
from truthful.study import Study

PAGE = Path(__file__).parents[1] / "docs" / "howto-verify.md"
FEATURES, WITHHELD = "if features are public", "if sums are withheld"
KEPT_BACK = f'{studies.DESIGNED}[privacy]\nprotects = "answers"\npublish_matrix = false\n'
#: What is settled, and what the page says of such releases.
KINDS: dict[str, tuple[str, str, set[str]]] = {
    "instruments": ("numbers", studies.DESIGNED, {FEATURES}),
    "known-design": ("numbers", studies.RELEASES["known-design"], set()),
    "noisy-statistics": ("numbers", studies.RELEASES["noisy-statistics"], set()),
    "sums withheld": ("numbers", KEPT_BACK, {FEATURES, WITHHELD}),
    "yes or no": ("shares", shares.YES_NO, set()),
    "yes or no, with features": ("shares", shares.WITH_FEATURES, {FEATURES}),
    "shares withheld": ("shares", shares.KINDS["yes or no, sums kept back"], {FEATURES, WITHHELD}),
    "predictions": ("both", both_studies.NUMBER, set()),
    "predictions, with features": ("both", both_studies.KINDS["rating, with facts"], {FEATURES}),
}
SLOW = ("noisy-statistics", "shares withheld", "predictions, with features")


@cache
def settled(kind: str) -> tuple[Plan, Settlement]:
    """A plan, and a rehearsal of it."""
    of, text, _ = KINDS[kind]
    if of == "numbers":
        study = Study.parse(text)
        plan = studies.planned(study, 100)
        return plan, settle(plan, studies.people(study, 100).reports, seed=1)
    if of == "shares":
        plan = shares.planned(text, norm="l2")
        return plan, settle(plan, shares.reports(plan.study, plan.players), seed=4, accept_less=True)
    plan = both_studies.planned(text, 400 if "features" in kind else 60)
    return plan, settle(plan, both_studies.reports(plan.study, plan.players), seed=4, accept_less=True)


def stated_fields(said: set[str]) -> tuple[str, ...]:
    """Fields that the page calls the analyst's word, where what is said of a release holds."""
    rows = [line.strip("| ").split("|") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    cells = [(row[0], row[-1].strip()) for row in rows]
    return tuple(
        name
        for fields, when in cells
        if when == "always" or when in said
        for name in re.findall("`([^`]+)`", fields)
    )


def numbers(part: Any, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    """The places of all numbers, also of those that are written as texts."""
    if isinstance(part, dict):
        for name, value in part.items():
            yield from numbers(value, *path, name)
    elif isinstance(part, list):
        for place, value in enumerate(part):
            yield from numbers(value, *path, place)
    elif not isinstance(part, bool) and re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", str(part)):
        yield path


def edited(record: dict[str, Any], path: tuple[str | int, ...]) -> dict[str, Any]:
    """The record with one number a little larger."""
    changed = deepcopy(record)
    inner: Any = changed
    for key in path[:-1]:
        inner = inner[key]
    value = inner[path[-1]]
    if isinstance(value, str):
        inner[path[-1]] = str(round(int(value) * 1.01) + 1)
    else:
        inner[path[-1]] = value + 1 if isinstance(value, int) else value * 1.01 + 0.001
    return changed


def refused(record: dict[str, Any], plan: Plan, settlement: Settlement) -> bool:
    """Whether verify or report refuses it."""
    try:
        release = Release.model_validate_json(json.dumps(record))
        require_planned(release, plan)
        return not verify(release, settlement.receipt(settlement.payments["player"][0].as_py())).verified
    except (TruthfulError, ValidationError):
        return True


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind in SLOW else ()) for kind in KINDS]
)
def test_no_number_can_be_edited_but_those_the_page_calls_the_analysts(kind: str) -> None:
    plan, settlement = settled(kind)
    record, stated = settlement.release.record(), stated_fields(KINDS[kind][2])
    assert not refused(record, plan, settlement)
    unnoticed = [
        place
        for path in numbers(record)
        if not (place := ".".join(map(str, path))).startswith(stated)
        if not refused(edited(record, path), plan, settlement)
    ]
    assert unnoticed == []


def test_the_page_has_every_field() -> None:
    told = {
        name.split(".")[0]
        for line in PAGE.read_text().splitlines()
        if line.startswith("| `")
        for name in re.findall("`([^`]+)`", line.split("|")[1])
    }
    assert told == set(Release.model_fields)


@pytest.mark.parametrize("kind", ["instruments", "known-design", "yes or no", "predictions"])
def test_a_warning_that_was_taken_away_is_missed(kind: str) -> None:
    plan, settlement = settled(kind)
    warned = settlement.release.model_copy(update={"warnings": ("All is well.",)})
    with pytest.raises(InputError, match="states 1 warnings"):
        require_planned(warned, plan)


def test_the_sentence_names_the_coefficient_and_both_numbers() -> None:
    plan, settlement = settled("instruments")
    release = settlement.release
    first, price, *others = release.coefficients
    moved = {end: getattr(price, end) + 2 for end in ("value", "low", "high")}
    forged = release.model_copy(update={"coefficients": (first, price.model_copy(update=moved), *others)})
    told = rf"coefficients\.price\.value = {moved['value']:.5f}; .* is {price.value:.6f}"
    with pytest.raises(InputError, match=told):
        verify(forged, settlement.receipt("p-001"))
    with pytest.raises(InputError, match=told):
        report(forged, plan)


def test_an_interval_must_lie_about_its_number_and_be_no_narrower_than_noise_makes_it() -> None:
    _, settlement = settled("instruments")
    release = settlement.release
    first, *others = release.coefficients
    for width, problem in ((0.5, "between"), (100.0, "between")):
        ends = {"low": first.value - width * 10, "high": first.value + width * 10}
        forged = release.model_copy(update={"coefficients": (first.model_copy(update=ends), *others)})
        with pytest.raises(InputError, match=problem):
            require_consistent(forged)


@pytest.mark.parametrize(
    ("field", "value"), [("vector", ("x", "1", "1", "1")), ("matrix", (("0",) * 4,) * 4)]
)
def test_statistics_from_which_nothing_follows_are_refused(field: str, value: Any) -> None:
    _, settlement = settled("instruments")
    broken = settlement.release.statistics.model_copy(update={field: value})
    with pytest.raises(InputError, match="do not fit together"):
        require_consistent(settlement.release.model_copy(update={"statistics": broken}))


def test_a_release_without_the_mean_of_features_is_refused() -> None:
    _, settlement = settled("yes or no, with features")
    bare = settlement.release.statistics.model_copy(update={"mean": None})
    with pytest.raises(InputError, match=r"no statistics\.mean"):
        require_consistent(settlement.release.model_copy(update={"statistics": bare}))
