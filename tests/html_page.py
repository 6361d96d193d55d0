"""A page of HTML as what it says, for tests: its tags in order, every one of them closed."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

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
