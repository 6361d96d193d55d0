"""The documentation as a site: it builds without a warning, fetches nothing from elsewhere, and leaves no name out."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import library
import pages
import pytest
from support.browsers import opened

import truthful

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FETCHED = re.compile(r"<(?:script|img|link|iframe)\b[^>]*?\b(?:src|href)=[\"']?(?:https?:)?//", re.IGNORECASE)

CUT_OFF = "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.innerText)"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="pip install --group docs")
    directory = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(directory)],
        cwd=pages.ROOT,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    return directory


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened() as found:
        yield found


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_has_every_page(site: Path) -> None:
    wanted = {path.stem for path in (pages.ROOT / "docs").glob("*.md")}
    assert {path.stem for path in site.glob("*.html")} >= wanted


@pytest.mark.slow
def test_pages_fetch_nothing_from_other_hosts(site: Path) -> None:
    for path in site.glob("*.html"):
        assert not FETCHED.findall(path.read_text(encoding="utf-8")), path.name


@pytest.mark.slow
def test_search_works_on_pages_from_the_disk(site: Path, browser: Browser) -> None:
    """There a page may fetch nothing, not even the index: it comes as a script, and so does the worker's stand-in."""
    page = browser.new_page()
    page.goto((site / "index.html").as_uri())
    page.fill("input.md-search__input", "participation")
    page.wait_for_selector(".md-search-result__link[href*='file-formats']", state="attached")
    page.close()


@pytest.mark.slow
def test_nothing_is_cut_off_on_a_desk_and_no_page_is_wider_than_a_phone(site: Path, browser: Browser) -> None:
    page = browser.new_page()
    for path in site.glob("[!4]*.html"):
        page.set_viewport_size({"width": 1300, "height": 900})
        page.goto(path.as_uri())
        assert page.eval_on_selector_all("html, pre > code, .md-typeset__scrollwrap, .math", CUT_OFF) == [], (
            path
        )
        page.set_viewport_size({"width": 390, "height": 900})
        assert page.eval_on_selector_all("html", CUT_OFF) == [], path
    page.close()


@pytest.mark.slow
def test_formulas_are_drawn_and_none_is_left_in_latex(site: Path) -> None:
    shown = (site / "theory.html").read_text(encoding="utf-8")
    assert shown.count('<math xmlns="http://www.w3.org/1998/Math/MathML"') == pages.read(
        "docs/theory.md"
    ).count("```math")
    text = re.sub(r"<[^>]*>", "", re.sub(r"<(pre|code|script|style)\b.*?</\1>", "", shown, flags=re.DOTALL))
    assert not re.findall(r"\\[a-z]+|&amp;|[λκε‖]_", text)


def test_a_fetch_from_another_host_would_be_noticed() -> None:
    assert FETCHED.search('<script src="https://example.org/a.js">')
    assert FETCHED.search('<link rel="stylesheet" href="//example.org/a.css">')
    assert not FETCHED.search('<a href="https://example.org">there</a><script src="assets/a.js">')


def test_the_reference_of_the_library_is_as_the_code_has_it() -> None:
    generated = pages.read("docs/reference-library.md").partition(pages.MARKER)[2]
    assert generated.strip() == library.reference().strip(), "Run `python tools/pages.py`."


def test_every_public_name_has_a_section_that_says_something() -> None:
    text = pages.read("docs/reference-library.md")
    sections = dict(re.findall(r"^## `(\w+)`\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert list(sections) == truthful.__all__
    assert all(section.strip() for section in sections.values())


@pytest.mark.parametrize("name", library.FURTHER)
def test_what_people_extend_or_call_in_a_further_module_is_there_too(name: str) -> None:
    text = pages.read("docs/reference-library.md").split(f"\n## `truthful.{name}`\n")[1].split("\n## ")[0]
    sections = dict(re.findall(r"^### `(\w+)`\n(.*?)(?=^### |\Z)", text, re.MULTILINE | re.DOTALL))
    assert list(sections) == library.names(importlib.import_module(f"truthful.{name}"))
    assert all(section.strip() for section in sections.values())


def test_the_auditors_product_the_agents_and_the_rates_are_in_the_reference() -> None:
    text = library.reference()
    for heading in ("### `Product`", "### `Agent`", "### `BestResponder`", "### `rates`", "### `invent`"):
        assert f"\n{heading}\n" in text


def test_members_have_their_arguments_and_tables_have_heads() -> None:
    text = library.reference()
    assert "| | |" not in text
    assert "| `prediction(r, y, curve=Identity(), scale=0.0)` |" in text
    assert "| `load(path)` |" in text


def test_signatures_keep_their_defaults() -> None:
    assert "    rule: str = 'quadratic',\n" in library.reference()
    assert "quadratic(p: npt.ArrayLike, q: npt.ArrayLike, *, a: float, b: float)" in library.reference()
