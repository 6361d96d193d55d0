"""The report is one page that needs nothing but itself, says what the release says, and nothing that is private."""

import hashlib
import html
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.html_page import Page, check_needs_nothing, check_reads_aloud
from support.studies import DESIGNED, OBSERVED, RECORDS, RELEASES, UNEQUAL, people, planned, saved_study
from typer.testing import CliRunner

from truthful import cli
from truthful.charts.drawing import BLUE, ORANGE
from truthful.errors import InputError
from truthful.formatting import REHEARSAL, to_within
from truthful.plan import Plan
from truthful.promises import promises, released_promises
from truthful.release import Release, read_release
from truthful.report import report
from truthful.settlement import settle
from truthful.study import Study

ASKED = DESIGNED.replace('name = "spend"', 'name = "spend"\nquestion = "How much do you spend?"')
HOSTILE = "</title><script>alert(1)</script>&\"'\u202e\\u0001<!--"
FIVE = ["Privacy", "Truthfulness", "Accuracy", "Participation", "Budget"]


def rehearsed(
    text: str = ASKED, players: int = 200, estimator: str | None = None, **parameters: Any
) -> tuple[Plan, Release]:
    """A plan, and the release of a rehearsal of it, whatever can be guaranteed for those who answered."""
    study = Study.parse(text)
    plan = planned(study, players, estimator, **parameters)
    release = settle(plan, people(study, players).reports, seed=1, accept_less=True).release
    assert isinstance(release, Release)
    return plan, release


@cache
def reported() -> tuple[Plan, Release, str]:
    plan, release = rehearsed()
    return plan, release, report(release, plan)


@pytest.mark.parametrize("estimator", RELEASES)
def test_what_a_settlement_writes_is_made_from_its_release_and_plan_alone(
    tmp_path: Path, estimator: str
) -> None:
    """So nothing of people's answers can be in it that is not in the release."""
    plan = planned(saved_study(tmp_path, RELEASES[estimator]), 200, estimator)
    settle(plan, people(plan.study, 200).reports, out=tmp_path / "out")
    release = read_release(tmp_path / "out" / "release.json")
    assert (tmp_path / "out" / "report.html").read_text(encoding="utf-8") == report(release, plan)


def test_no_total_payment_or_count_of_bad_records_is_in_it(tmp_path: Path) -> None:
    plan = planned(saved_study(tmp_path), 400)
    table = people(plan.study, 400).reports
    answers = table.column("spend").to_numpy().copy()
    answers[:137] = 777.0
    table = table.set_column(table.column_names.index("spend"), "spend", [answers])
    settlement = settle(plan, table, out=tmp_path / "out", on_bad="clip", seed=1)
    summary = settlement.summary
    assert summary["records"]["clipped"] == 137
    page = Page((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    numbers = set(re.findall(r"\d[\d,.]*\d|\d", " ".join(element.text for element in page.all("body"))))
    private = [
        summary["total_paid"],
        summary["total_in_coins"],
        summary["least_payment"],
        summary["largest_payment"],
    ]
    told = {f"{value:,.{decimals}f}" for value in private for decimals in (4, 5, 6)}
    told |= {f"{summary[total]:,.2f}" for total in ("total_paid", "total_in_coins")}
    assert not numbers & ({"137"} | told)
    assert settlement.release.sha256 in page.one("body").text


def test_another_plan_is_refused() -> None:
    _, release, _ = reported()
    with pytest.raises(InputError, match="was made with plan"):
        report(release, planned(Study.parse(ASKED), 201))


def test_the_same_release_is_the_same_bytes() -> None:
    plan, release, page = reported()
    again = Release.model_validate_json(release.model_dump_json())
    assert report(again, plan) == page


def test_a_page_needs_nothing_but_itself() -> None:
    check_needs_nothing(reported()[2])


def test_a_page_can_be_read_without_seeing_it() -> None:
    source = reported()[2]
    check_reads_aloud(source, "Designed: report")
    assert len(Page(source).all("svg")) == 4


def test_every_chart_has_its_numbers_in_a_table() -> None:
    page = Page(reported()[2])
    order = [element.tag for element in page.all("figure", "table")]
    # After differences and coefficients, intervals to expect and what was promised beside what holds are in tables of
    # their own.
    assert order == ["figure", *["table"] * 4, *["figure", "table"] * 3]


def test_what_a_lie_earns_is_said_in_one_way_only() -> None:
    plan, release = rehearsed(players=20_000, epsilon=1.0, score_weight=50.0)
    text = Page(report(release, plan)).one("body").text
    assert re.search(
        r"D is where a lie moves her prediction by [\d.,]+, in answers [\d.,]+: beyond it nobody gains", text
    )
    assert "a lie lowers the payment that can be expected" in text
    assert "can gain by a lie, and only by a small one" in text


def test_where_nobody_is_protected_the_page_says_so_and_gives_no_odds() -> None:
    plan, release = rehearsed(players=500, epsilon=100.0, score_weight=50.0)
    text = Page(report(release, plan)).one("body").text
    assert "This is practically no privacy" in text
    assert "even odds" not in text
    assert "000000" not in text


def test_the_five_guarantees_stand_in_their_order_and_words() -> None:
    plan, release, source = reported()
    page = Page(source)
    assert [heading.text for heading in page.all("h3")] == FIVE
    text = page.one("body").text
    places = [text.index(promise.words[1:]) for promise in released_promises(release, plan)]
    assert places == sorted(places)
    for words in release.guarantees["budget"]["assumptions"]:
        assert words[1:] in text


def test_the_numbers_are_those_of_the_release() -> None:
    _, release, source = reported()
    page = Page(source)
    rows = [row.text for row in page.all("tr")]
    for c in release.coefficients:
        width = c.high - c.low
        assert (
            f"{c.name}{to_within(c.value, width)}{to_within(c.low, width)}{to_within(c.high, width)}" in rows
        )
    text = page.one("body").text
    for said in (
        release.sha256,
        release.plan_sha256,
        release.study.sha256,
        "How much do you spend?",
        "truthful verify release.json receipt.json",
        "200",
    ):
        assert said in text


def test_what_differs_between_people_is_drawn_and_told_against_the_reference() -> None:
    study = Study.parse(UNEQUAL)
    plan = planned(study, 300)
    release = settle(plan, people(study, 300).reports, seed=1).release
    page = Page(report(release, plan))
    text = page.one("body").text
    for label in (
        "price, from 1 to 5",
        "region: north, not south",
        "region: east, not south",
        "region: east, not south × sex: m, not f",
    ):
        assert label in text
    assert "north (50%), south (30%), east (20%)" in text
    assert "price × visits; region × price; region × sex" in text
    assert "With ×, it is by how much the first difference changes over the second." in text


def test_the_hash_of_the_file_is_that_of_the_file(tmp_path: Path) -> None:
    _, release, source = reported()
    release.save(tmp_path / "release.json")
    assert f"{hashlib.sha256((tmp_path / 'release.json').read_bytes()).hexdigest()}  release.json" in source


def test_a_rehearsal_is_marked_and_nothing_else_is(tmp_path: Path) -> None:
    assert REHEARSAL in html.unescape(reported()[2])
    plan = planned(saved_study(tmp_path), 60)
    settle(plan, people(plan.study, 60).reports, out=tmp_path / "out")
    assert "REHEARSAL" not in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("place", ["Designed", "spend", "price", "region", "north", "How much do you spend?"])
def test_a_name_is_never_markup(place: str) -> None:
    """Names that would end the title, start a script, open a comment or turn the direction of what follows."""
    toml = HOSTILE.replace('"', '\\"')
    plan, release = rehearsed(ASKED.replace(f'"{place}"', f'"{toml}"'))
    source = report(release, plan)
    page = Page(source)
    assert not page.all("script")
    assert "<!--" not in source
    assert "\u202e" not in re.sub(r"<svg.*?</svg>", "", source, flags=re.DOTALL)
    assert "\x01" not in source
    assert "alert(1)" in page.one("body").text
    assert len(page.all("svg")) == 4
    assert [heading.text for heading in page.all("h3")] == FIVE


def test_letters_of_all_scripts_and_dollars_are_shown_as_they_are() -> None:
    plan, release = rehearsed(ASKED.replace('"price"', '"价格 $x_1$ सेब"'))
    assert report(release, plan).count("价格 $x_1$ सेब") >= 3


def test_what_privacy_assumes_is_what_the_release_says() -> None:
    plan = planned(Study.parse(ASKED + RECORDS), 200)
    reports = people(plan.study, 200).reports
    release = settle(plan, reports, seed=1, on_bad="drop").release
    text = Page(report(release, plan)).one("body").text
    assert "That a record is complete and in range is no secret" in text
    assert "Probability: certain. Assuming: assumptions 1." in text


@pytest.mark.parametrize(
    ("text", "charts"),
    [
        (OBSERVED + RECORDS, 3),
        (re.sub(r"\[\[features\]\].*?(?=\[design\])", "", DESIGNED, flags=re.DOTALL), 3),
    ],
)
def test_charts_that_the_study_has_no_numbers_for_are_left_out(text: str, charts: int) -> None:
    """Features of unknown law predict no payments; without features there are no effects."""
    plan = planned(Study.parse(text), 200)
    page = Page(report(settle(plan, people(plan.study, 200).reports, seed=1).release, plan))
    assert len(page.all("svg")) == charts
    assert len(page.all("table")) >= charts


@pytest.mark.parametrize(
    "parameters",
    [
        {"score_weight": 0.0, "base_payment": 1.0},
        {"score_weight": 1e-6},
        {"score_weight": 1e8},
        {"epsilon": 100.0},
        {"epsilon": 1e-6},
        {"rule": "brier"},
        {"payments": "expected"},
        {"absent_share": 0.4},
    ],
)
def test_a_report_can_be_made_of_every_plan(parameters: dict[str, Any]) -> None:
    plan, release = rehearsed(**parameters)
    source = report(release, plan)
    assert len(Page(source).all("svg")) == 4
    assert not re.search(r"\bnan\b|\binf\b", Page(source).one("main").text)


@pytest.mark.parametrize(
    ("parameters", "promised"), [({"score_weight": 50.0}, True), ({"epsilon": 50.0}, False)]
)
def test_lies_are_said_not_to_pay_only_where_that_is_promised(
    parameters: dict[str, Any], promised: bool
) -> None:
    """At an ε that large the only lies that surely cost are larger than any lie."""
    plan, release = rehearsed(players=5000, **parameters)
    assert promises(plan)[1].words.startswith("nothing is promised") != promised
    text = Page(report(release, plan)).one("body").text
    assert ("Nobody of those to whom truthfulness is promised" in text) == promised
    assert ("no promise" in text) != promised


def test_a_settlement_is_finished_even_if_its_report_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where matplotlib cannot be loaded: by then the noise is drawn, and must not be lost."""
    plan = planned(saved_study(tmp_path), 60)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "matplotlib", None)
        settlement = settle(plan, people(plan.study, 60).reports, out=tmp_path / "out")
    page = Page((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    assert page.one("h1").text == "No report"
    assert "could not be made" in caplog.text
    assert not list(tmp_path.glob(".*.unfinished"))
    plan.save(tmp_path / "plan.json")
    command = next(line for line in page.one("pre").text.splitlines() if line.startswith("truthful report"))
    monkeypatch.chdir(tmp_path / "out")
    arguments = command.replace(" plan.json", " ../plan.json").split()[1:]
    assert CliRunner().invoke(cli.app, arguments).exit_code == 0
    assert (tmp_path / "out" / "report.html").read_text(encoding="utf-8") == report(settlement.release, plan)


def luminance(colour: str) -> float:
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_words_and_lines_stand_out_from_the_paper_in_light_and_in_dark() -> None:
    """WCAG AA: 4.5 for text, 3 for lines and markers. And the light colours are the charts' own."""
    source = reported()[2]
    blocks = re.findall(r":root \{(.*?)\}", source, re.DOTALL)
    light, dark = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in blocks)
    for colours in (light, dark):
        for ink in ("ink", "grey"):
            assert contrast(colours[ink], colours["paper"]) >= 4.5
        assert contrast(colours["ink"], colours["alert"]) >= 4.5
        assert contrast(colours["ink"], colours["tint"]) >= 4.5
        # Under the shade of small lies.
        assert contrast(colours["ink"], colours["faint"]) >= 4.5
        for line in ("blue", "orange"):
            assert contrast(colours[line], colours["paper"]) >= 3
    assert light["blue"] == BLUE.lower()
    assert light["orange"] == ORANGE.lower()
    assert "@media print" in source
    assert "@media screen and (prefers-color-scheme: dark)" in source
    used = set(re.findall(r"var\(--([\w-]+)\)", source))
    assert used <= set(light)
    assert set(light) == set(dark)
    # A colour that is not the page's own would stay as it is in the dark.
    drawn = "".join(re.findall(r"<svg.*?</svg>", source, re.DOTALL))
    assert not re.findall(r"#[0-9a-fA-F]{6}\b", re.sub(r'(id|href)="[^"]*"|url\([^)]*\)', "", drawn))
