"""A page of HTML as what it says, for tests: its tags in order, every one of them closed."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise

#: Tags that have no end. Those of SVG end with a slash, and are told apart by it.
VOID = {"meta", "link", "img", "br", "hr", "input", "base", "embed", "source", "wbr"}


@dataclass
class Element:
    """A tag, its attributes and the texts inside it, those of its children among them."""

    tag: str
    attributes: dict[str, str]
    parents: tuple[str, ...]
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())


class Page(HTMLParser):
    """All elements of a page. Tags that are not closed in their order are an error."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(source)
        self.close()
        assert not self._open, f"never closed: {[element.tag for element in self._open]}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = self._add(tag, attrs)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.texts.append(data)

    def _add(self, tag: str, attrs: list[tuple[str, str | None]]) -> Element:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice"
        parents = tuple(parent.tag for parent in self._open)
        element = Element(tag, {name: value or "" for name, value in attrs}, parents)
        self.elements.append(element)
        return element

    def all(self, *tags: str) -> list[Element]:
        """The elements of these tags, in their order."""
        return [element for element in self.elements if element.tag in tags]

    def one(self, tag: str) -> Element:
        """The element of this tag outside all charts, of which there is one."""
        (found,) = (element for element in self.all(tag) if "svg" not in element.parents)
        return found


def section(source: str, heading: str) -> str:
    """The section of a page under this heading, as source."""
    (found,) = (part for part in source.split("<section>") if part.strip().startswith(f"<h2>{heading}</h2>"))
    return f"<section>{found.partition('</section>')[0]}</section>"


def check_needs_nothing(source: str) -> None:
    """No address but the name of SVG, no script, nothing loaded; all links lead to something on the page."""
    page = Page(source)
    assert set(re.findall(r"\w+://[^\s\"'<]*", source)) == {"http://www.w3.org/2000/svg"}
    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", source)
    assert "@import" not in source
    assert not page.all("script", "link", "img", "iframe", "object", "embed", "base", "form", "image")
    ids = {element.attributes["id"] for element in page.elements if "id" in element.attributes}
    for element in page.elements:
        assert not [name for name in element.attributes if name.startswith("on") or name in ("src", "srcset")]
        if "href" in element.attributes:
            assert element.attributes["href"].removeprefix("#") in ids
    for name in re.findall(r"url\(#([\w-]+)\)", source):
        assert name in ids


def check_reads_aloud(source: str, title: str) -> None:
    """Language, one title and one main heading, headings that skip no level, heads of tables, charts with words."""
    page = Page(source)
    assert source.startswith("<!DOCTYPE html>\n")
    assert page.one("html").attributes["lang"] == "en"
    assert page.one("title").text == title
    levels = [int(heading.tag[1]) for heading in page.all("h1", "h2", "h3", "h4")]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    ids = [element.attributes["id"] for element in page.elements if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    assert all(cell.attributes["scope"] in ("row", "col", "rowgroup") for cell in page.all("th"))
    assert all(cell.text for cell in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table"))
    charts = page.all("svg")
    assert len(charts) == len(page.all("figcaption"))
    for chart in charts:
        assert chart.attributes["role"] == "img"
        named = chart.attributes["aria-labelledby"].split()
        words = {element.attributes.get("id"): element.text for element in page.all("title", "desc")}
        assert all(words[name] for name in named)
        assert len(named) == 2
