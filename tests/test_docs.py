"""What the documentation says is what happens: its examples run, and no field, key, command or option is left out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import pages
import phones
import pyarrow as pa
import pyarrow.parquet
import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from support.browsers import shown_in
from support.shares import study_of, two_levels
from support.shown_asked import plan_of, reports
from support.studies import DESIGNED, people

from truthful.bounds.precision import Precision
from truthful.formatting import even_odds
from truthful.guarantees import Guarantees, Shading
from truthful.plan import Plan, design
from truthful.release import Receipt, Release
from truthful.release.release import OF_SHARES, Coefficient
from truthful.settlement import Settlement, settle
from truthful.study import Study
from truthful.study.declaration import Declaration
from truthful.symbols import SYMBOLS

FORMATS = "docs/file-formats.md"
# Parts of plans and releases that are documented once, in sections of their own.
ELSEWHERE = (
    "guarantees",
    "promised",
    "declaration",
    "response",
    "features",
    "design",
    "privacy",
    "beliefs",
    "invitation",
    "costs",
)


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the tables in one section of a page, without their heads."""
    section = pages.read(page).split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    rules = [i for i, line in enumerate(lines) if line.startswith("|---")]
    heads = {*rules, *(i - 1 for i in rules)}
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for i, line in enumerate(lines)
        if i not in heads
    ]


def documented(heading: str) -> set[str]:
    """The paths in the first column of a section of the page on file formats."""
    return {name for row in rows(FORMATS, heading) for name in re.findall(r"`([^`]+)`", row[0])}


def paths(record: Any, prefix: str = "", leaves: tuple[str, ...] = ()) -> set[str]:
    """The paths of a JSON record: `a.b` for fields, `a[].b` for the fields of a list's entries."""
    if isinstance(record, dict) and record and prefix not in leaves:
        deeper = (paths(value, f"{prefix}.{key}".lstrip("."), leaves) for key, value in record.items())
        return set().union(*deeper)
    if isinstance(record, list) and record and isinstance(record[0], dict) and prefix not in leaves:
        return set().union(*(paths(entry, f"{prefix}[]", leaves) for entry in record))
    return {prefix}


def model_fields(model: Any, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """The fields of a pydantic model, with those of the models inside it."""
    for name, field in model.model_fields.items():
        inner = list(models_in(field.annotation))
        many = "[]" if get_origin(field.annotation) is tuple else ""
        if not inner:
            yield f"{prefix}{name}", field
        for part in inner:
            yield from model_fields(part, f"{prefix}{name}{many}.")


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in (Annotated, Union, UnionType, tuple):
        for part in dict.fromkeys(get_args(annotation)):
            yield from models_in(part)


def dataclass_paths(kind: Any, prefix: str = "") -> set[str]:
    hints, found = get_type_hints(kind), set()
    for field in fields(kind):
        inner = hints[field.name]
        rows = {"numbers": Precision, "shading": Shading}.get(field.name)
        if rows is not None:
            found |= dataclass_paths(rows, f"{prefix}{field.name}[].")
        else:
            found |= (
                dataclass_paths(inner, f"{field.name}.") if is_dataclass(inner) else {prefix + field.name}
            )
    return found


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Settlement]:
    """A rehearsal of a study of every kind of feature, planned from a roster, with all its files."""
    directory = tmp_path_factory.mktemp("settled")
    text = f'{DESIGNED}[privacy]\nprotects = "answers"\n'
    (directory / "study.toml").write_text(text, encoding="utf-8")
    study = Study.load(directory / "study.toml")
    reports = people(study, 200, seed=0).reports
    plan = design(study, roster=reports, epsilon=2.0, score_weight=0.5)
    plan.save(directory / "plan.json")
    return plan, settle(plan, reports, out=directory / "settlement", seed=0)


def load(settled: tuple[Plan, Settlement], name: str) -> Any:
    directory = settled[1].directory
    assert directory is not None
    path = directory / name if (directory / name).exists() else directory.parent / name
    return json.loads(path.read_text(encoding="utf-8"))


LONG = ("docs/auditing.md", "docs/planning.md")


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.slow if page in LONG else ()) for page in pages.PAGES]
)
def test_what_a_page_shows_is_what_happens(page: str, tmp_path: Path) -> None:
    for shown in pages.play(page, tmp_path):
        refused = shown.shown.startswith(("Refused: ", "Infeasible: "))
        assert shown.code == int(refused), f"{shown.source}\n{shown.output}"
        assert pages.agrees(shown.shown, shown.output), (
            f"{page} shows another output than `{shown.source}` has. `python tools/pages.py` pastes this one:\n"
            f"{shown.output}"
        )


def test_what_a_participant_is_told_is_true_of_the_run_that_the_readme_shows() -> None:
    epsilon = re.search(r"privacy ε = ([\d.]+)\.", pages.read("README.md"))
    assert epsilon
    better, worse = even_odds(float(epsilon[1]))
    assert f"better than {better} to {worse} odds" in " ".join(pages.read("docs/participants.md").split())


def test_the_readme_says_what_its_first_study_buys() -> None:
    """For the study of `docs/howto-yes-no.md`, whose costs and shares these are."""
    text = " ".join(pages.read("README.md").split())
    claim = re.search(
        r"([\d,]+) people and (\d+) USD give .* 95 % interval of ± ([\d.]+) percentage points", text
    )
    assert claim
    players, budget, width = (float(number.replace(",", "")) for number in claim.groups())
    (share,) = design(study_of(), players=int(players), budget=budget).guarantees.accuracy.numbers or ()
    assert 100 * share.half_width == pytest.approx(width, abs=0.06)


@pytest.mark.parametrize("levels", [None, 2, 3, 7])
def test_the_least_eigenvalue_of_evenly_spread_features_is_as_the_pages_say(levels: int | None) -> None:
    """1/(kd), k the most levels but at least 3: of effect codes E[c cᵀ] = (I + 11ᵀ)/k, of a number's code 1/3."""
    features: list[dict[str, Any]] = [{"name": "age", "low": 18, "high": 90}]
    if levels is not None:
        features.append({"name": "region", "levels": [f"r{j}" for j in range(levels)]})
    study = Study.from_declaration(
        Study.parse(DESIGNED).declaration() | {"features": features, "design": {"kind": "uniform"}}
    )
    assert study.second_moments is not None
    assert np.linalg.eigvalsh(study.second_moments)[0] == pytest.approx(
        1 / (max(3, levels or 0) * study.dimension)
    )
    for text in (
        pages.read("docs/howto-features.md"),
        files("truthful.study").joinpath("template.toml").read_text(),
    ):
        assert "1/(kd)" in text
        assert "1/(3d)" not in text


def test_output_is_compared_and_not_only_run() -> None:
    assert pages.agrees("a  1\n───\n", "a 1\n─────")
    assert pages.agrees("a 1\n...\nc 3\n", "a 1\nb 2\nc 3\n")
    assert not pages.agrees("a 1\n", "a 2\n")
    assert not pages.agrees("a 1\n...\nc 3\n", "a 1\nb 2\n")


def test_a_command_of_a_page_that_fails_is_noticed() -> None:
    assert pages.run("truthful verify nothing.json nothing.json")[0] == 2


def test_the_picture_in_the_tutorial_is_small_and_of_a_report() -> None:
    assert "](report.png)" in pages.read(pages.TUTORIAL)
    assert pages.REPORT.stat().st_size < 200_000
    assert re.fullmatch("[0-9a-f]{64}", shown_in(pages.REPORT))


@pytest.mark.parametrize("name", phones.PICTURES)
def test_pictures_of_a_participants_pages_are_small_and_of_pages(name: str) -> None:
    assert f"]({name})" in pages.read("docs/participants.md")
    assert (pages.ROOT / "docs" / name).stat().st_size < 100_000
    assert re.fullmatch("[0-9a-f]{64}", shown_in(pages.ROOT / "docs" / name))


@pytest.mark.parametrize("page", pages.PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", pages.read(page)):
        file, _, anchor = target.partition("#")
        path = (pages.ROOT / page).parent / file if file else pages.ROOT / page
        assert path.exists(), target
        headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE) if anchor else []
        anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert not anchor or anchor in anchors, target


@pytest.mark.parametrize("page", ["README.md", "docs/security.md", "docs/index.md"])
def test_whoever_asks_whether_it_holds_is_led_to_the_auditor_and_the_laboratory(page: str) -> None:
    for target in ("auditing.md", "laboratory.md"):
        assert re.search(rf"\]\((docs/)?{target}\)", pages.read(page)), target


def test_the_table_of_notation_is_the_one_of_the_code() -> None:
    wanted = [[s.paper, s.meaning, f"`{s.formula}`", f"`{s.door}`"] for s in SYMBOLS]
    assert rows("docs/theory.md", "Notation") == wanted


def test_the_reference_has_every_command_and_option_as_it_is() -> None:
    generated = pages.read("docs/commands.md").partition(pages.MARKER)[2]
    assert generated.strip() == pages.reference().strip(), "Run `python tools/pages.py`."


def test_every_key_of_a_study_file_is_documented_and_no_other() -> None:
    assert documented("study.toml") == {name for name, _ in model_fields(Declaration)}


def test_the_documented_defaults_of_a_study_file_are_the_real_ones() -> None:
    shown = {row[0].strip("`"): row[2] for row in rows(FORMATS, "study.toml")}
    for name, field in model_fields(Declaration):
        default = "required" if field.is_required() else str(field.default).lower()
        assert shown[name] == default, name


@cache
def asked_for_shares() -> tuple[Plan, Settlement]:
    """A study of yes and no, with features."""
    study = study_of((0.2, 0.5), two_levels(1), effect=0.1)
    answers = [True, True, False, False, False, False] * 400
    people = pa.table({"player": range(2_400), "f0": ["a", "b"] * 1_200, "evaded": answers})
    plan = design(study, roster=people, epsilon=0.1, bonus=1.0)
    return plan, settle(plan, people, seed=1)


@cache
def asked_for_predictions() -> tuple[Plan, Settlement]:
    """A study that asks people what the others will say, and says what is plausible."""
    asked = plan_of("features").study
    people = reports(asked, 3_000)
    plan = design(asked, roster=people, budget=6_000, accuracy_of="predictions")
    return plan, settle(plan, people, seed=1)


def test_every_field_of_a_plan_is_documented_and_no_other(settled: tuple[Plan, Settlement]) -> None:
    study = settled[0].study
    solved = design(study, roster=people(study, 2_000).reports, budget=2_000).record()
    leaves = (*ELSEWHERE, "answer.asked")
    asked = (asked_for_shares()[0].record(), asked_for_predictions()[0].record())
    records = (load(settled, "plan.json"), solved, *asked)
    assert documented("plan.json") == set().union(*(paths(record, leaves=leaves) for record in records))


def test_every_field_of_the_guarantees_is_documented_and_no_other(settled: tuple[Plan, Settlement]) -> None:
    assert documented("Guarantees") == dataclass_paths(Guarantees)
    asked = (asked_for_shares()[0].record(), asked_for_predictions()[0].record())
    records = (load(settled, "plan.json"), *asked)
    assert documented("Guarantees") == set().union(*(paths(record["guarantees"]) for record in records))


def test_every_field_of_a_release_is_documented_and_no_other(settled: tuple[Plan, Settlement]) -> None:
    averages = ("predictions.answer", "predictions.prediction")
    known = {f"{average}.{name}": average for average in averages for name in Coefficient.model_fields}
    first = {name: name.partition(".")[0] for name, _ in model_fields(Release)}
    named = {of if of in OF_SHARES else known.get(name, name) for name, of in first.items()}
    assert documented("release.json") == named
    asked = (asked_for_shares()[1].release.record(), asked_for_predictions()[1].release.record())
    records = (
        load(settled, "release.json"),
        *asked,
        {"payments": None, "interactions": None, "language": None},
    )
    leaves = (*ELSEWHERE, *OF_SHARES, *averages)
    assert documented("release.json") == set().union(*(paths(record, leaves=leaves) for record in records))


def test_every_field_of_a_receipt_is_documented_and_no_other(settled: tuple[Plan, Settlement]) -> None:
    assert documented("Receipts") == set(Receipt.model_fields)


def test_every_field_of_the_private_summary_is_documented_and_no_other(
    settled: tuple[Plan, Settlement],
) -> None:
    assert documented("settlement.json") == paths(load(settled, "settlement.json"))


def test_every_field_of_the_ledger_is_documented_and_no_other(settled: tuple[Plan, Settlement]) -> None:
    assert documented("ledger.json") == paths(load(settled, "ledger.json"))


def test_every_column_of_the_books_is_documented_and_no_other(settled: tuple[Plan, Settlement]) -> None:
    plan, settlement = settled
    assert settlement.directory is not None
    paid = pyarrow.parquet.read_schema(settlement.directory / "payments.parquet").names
    assert documented("Payments") == set(paid)
    own = [*(feature.name for feature in plan.study.features), plan.study.response.name]
    receipts = pyarrow.parquet.read_schema(settlement.directory / "receipts.parquet").names
    steps = ["leverage", "noise_scale", "peer_prediction", "own_prediction"]
    assert receipts == ["player", *own, *steps, "payment"]
    assert all(f"`{step}`" in pages.read(FORMATS) for step in steps)


def test_every_file_a_settlement_writes_is_documented(settled: tuple[Plan, Settlement]) -> None:
    directory = settled[1].directory
    assert directory is not None
    for path in [*directory.iterdir(), *directory.parent.iterdir()]:
        assert path.is_dir() or f"`{path.name}`" in pages.read(FORMATS), path.name


def test_formats_are_documented_with_their_numbers(settled: tuple[Plan, Settlement]) -> None:
    for name in ("plan.json", "release.json", "settlement.json", "ledger.json"):
        assert f"| `format` | `{load(settled, name)['format']}` |" in pages.read(FORMATS)
