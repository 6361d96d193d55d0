"""All words in all languages: the same texts with the same values, each of them used, and none missing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from string import Formatter
from typing import Any

import pytest
from jinja2 import Environment, nodes

from truthful.service.analyst.study_pages import REMOVED
from truthful.service.pages import ENGLISH, Texts, choose_language, languages, money, number, percent
from truthful.service.payer import DOWNLOAD_EVENTS
from truthful.store.mails import REMINDED
from truthful.store.studies import STEPS
from truthful.store.tables import Role

SERVICE, STORE = (Path(str(resources.files(f"truthful.{part}"))) for part in ("service", "store"))
TEMPLATES = sorted(SERVICE.joinpath("templates").rglob("*.html"))
MODULES = sorted(SERVICE.rglob("*.py"))
FORMS = {"zero", "one", "two", "few", "many", "other"}
OTHERS = [language for language in languages() if language != ENGLISH]


def entries(texts: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Every text by its key; one with plural forms is a text, too."""
    for key, value in texts.items():
        name = f"{above}{key}"
        if isinstance(value, dict) and not set(value) <= FORMS:
            yield from entries(value, f"{name}.")
        else:
            yield name, value


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def wanted(text: Any) -> set[str]:
    """All values that a text, or any of its forms, asks for."""
    forms = text.values() if isinstance(text, dict) else [text]
    return {name for form in forms for name in placeholders(form)}


CATALOGUES = {language: dict(entries(texts.texts)) for language, texts in languages().items()}
KEYS = CATALOGUES[ENGLISH]
FILES = {key.partition(".")[0] for key in KEYS}


def literals(source: str) -> set[str]:
    """Keys, and beginnings of keys, that a module or a template names."""
    return set(re.findall(rf"""["']((?:{"|".join(sorted(FILES))})\.[\w.]*)""", source))


Call = tuple[str, set[str], bool]


def template_calls(path: Path) -> Iterator[Call]:
    """(key, values, whether there may be more) wherever a template asks for a text by its whole key."""
    for call in Environment().parse(path.read_text("utf-8")).find_all(nodes.Call):
        asks = isinstance(call.node, nodes.Name) and call.node.name == "t"
        if asks and call.args and isinstance(call.args[0], nodes.Const):
            given = {pair.key for pair in call.kwargs} | ({"count"} if len(call.args) > 1 else set())
            yield str(call.args[0].value), given, call.dyn_kwargs is not None


def module_calls(path: Path) -> Iterator[Call]:
    """The same of a module. A class takes a key to keep it: its values come later."""
    for call in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Constant):
            key, names = call.args[0].value, {pair.arg for pair in call.keywords}
            if key in KEYS and isinstance(call.func, ast.Name):
                given = {name for name in names if name} | ({"count"} if len(call.args) > 1 else set())
                yield str(key), given, None in names or call.func.id[0].isupper()


def test_there_is_a_second_language() -> None:
    assert OTHERS
    assert len(KEYS) > 100


@pytest.mark.parametrize("file", sorted(FILES))
@pytest.mark.parametrize("language", OTHERS)
def test_a_language_has_just_the_texts_that_english_has_with_the_same_values(
    language: str, file: str
) -> None:
    here, english = (
        {key: wanted(text) for key, text in CATALOGUES[code].items() if key.startswith(f"{file}.")}
        for code in (language, ENGLISH)
    )
    assert here == english


@pytest.mark.parametrize("language", languages())
def test_a_text_that_counts_has_every_form_of_its_language(language: str) -> None:
    rule = languages()[language].locale.plural_form
    for key, text in CATALOGUES[language].items():
        if isinstance(text, dict):
            assert set(text) == set(rule.tags) | {"other"}, key


@pytest.mark.parametrize("language", languages())
def test_no_text_is_empty_or_holds_markup(language: str) -> None:
    for key, text in CATALOGUES[language].items():
        for form in text.values() if isinstance(text, dict) else [text]:
            assert form.strip(), key
            assert not re.search(r"<[a-z/]|&[a-z#]", form), key


def test_every_text_is_used() -> None:
    named = set().union(*(literals(path.read_text("utf-8")) for path in [*TEMPLATES, *MODULES]))
    beginnings = tuple(name for name in named if name not in KEYS)
    unused = {key for key in KEYS if key not in named and not key.startswith(beginnings)}
    assert not unused


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_every_text_that_a_template_asks_for_is_there_and_gets_its_values(path: Path) -> None:
    for key, given, more in template_calls(path):
        assert key in KEYS
        assert more or not wanted(KEYS[key]) - given, key


def test_every_text_that_a_module_asks_for_gets_its_values() -> None:
    for path in MODULES:
        for key, given, more in module_calls(path):
            assert more or not wanted(KEYS[key]) - given, f"{path.name}: {key}"


def test_beginnings_of_keys_lead_somewhere() -> None:
    for path in [*TEMPLATES, *MODULES]:
        for name in literals(path.read_text("utf-8")):
            assert any(key.startswith(name) for key in KEYS), f"{path.name}: {name}"


def logged() -> Iterator[str]:
    """Every word that is written to the log. After one that is put together, a name follows, or a role."""
    yield from (what for what, _ in STEPS.values())
    yield from (*DOWNLOAD_EVENTS.values(), REMOVED, REMINDED)
    for path in [*MODULES, *sorted(STORE.rglob("*.py"))]:
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "log":
                for word in ast.walk(call.args[2]):
                    if isinstance(word, ast.Constant) and isinstance(word.value, str):
                        begun = word.value.strip()
                        yield from (f"{begun} {role}" for role in Role) if begun == "added a" else [begun]


@pytest.mark.parametrize("language", languages())
def test_all_that_is_logged_is_told_in_every_language(language: str) -> None:
    """And nothing is kept that is never logged."""
    assert set(languages()[language].texts["people"]["done"]) == set(logged())


@pytest.mark.parametrize(
    ("cookie", "accepted", "language"),
    [
        (None, "", "en"),
        (None, "de-AT,en;q=0.5", "de"),
        (None, "en;q=0.5,de;q=0.8", "de"),
        (None, "xx, ;q=, *;q=a", "en"),
        ("de", "en", "de"),
        ("klingon", "de", "de"),
        ("klingon", "tlh", "en"),
    ],
)
def test_the_reader_chooses_or_else_her_browser_does(
    cookie: str | None, accepted: str, language: str
) -> None:
    assert choose_language(cookie, accepted).language == language


def test_nothing_has_no_sign_whichever_nothing_was_shown_first() -> None:
    """-0.0 equals 0.0, so what is kept for the one is shown for the other."""
    locale = languages()[ENGLISH].locale
    for none in (-0.0, 0.0):
        assert (number(none, locale), percent(none, locale), money(none, "USD", locale)) == (
            "0",
            "0%",
            "$0.00",
        )


def test_forms_are_chosen_by_number() -> None:
    texts = Texts("en", {"a": {"people": {"one": "{count} person", "other": "{count} people"}}})
    assert [texts("a.people", count) for count in (0, 1, 2)] == ["0 people", "1 person", "2 people"]
