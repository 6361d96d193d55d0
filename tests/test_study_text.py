"""The text of a study file, also one that is made to break its reader."""

from __future__ import annotations

import pytest

from truthful.errors import InputError
from truthful.study import Study, template
from truthful.study.parser import parse_toml

DEEP = "more than 50 deep"
MANY = "a." * 3_000 + "a = 1"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = " + "[" * 30_000, DEEP),
        ("x = " + "{a = " * 30_000, DEEP),
        ("x = " + "[" * 30_000 + "]" * 30_000, DEEP),
        (MANY, DEEP),
        ("[" + "a." * 3_000 + "a]", DEEP),
        ("\"a\" . 'b' . " * 3_000 + "a = 1", DEEP),
        ("x = " + "9" * 100_000, "number of 100,000 characters"),
        ("x = 0x" + "f" * 100_000, "number of 100,002 characters"),
        ("#" * 200_001, "more than 200,000 characters"),
        ('x = """' + "\\", "not valid TOML"),
        ("'" * 100_000, "not valid TOML"),
        ('"\\' * 50_000, "not valid TOML"),
    ],
)
def test_a_text_that_would_take_all_memory_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Study.parse(text)


@pytest.mark.parametrize(
    "before",
    [
        'z = ["""a"""", """b"""]',
        'z = """ \\""" """',
        "z = '''a''''",
        "z = '\"'",
        "z = 1 # \"\"\" '''",
        'z = "\\""',
    ],
)
def test_no_string_hides_it(before: str) -> None:
    """Each of these lines is valid, and ends where a careless reader would still be in a string."""
    assert "z" in parse_toml(before, "study")
    with pytest.raises(InputError, match=DEEP):
        parse_toml(f"{before}\n{MANY}", "study")


@pytest.mark.parametrize(
    "inside",
    ['"' + "[a." * 1_000 + '"', "'" + "{a." * 1_000 + "'", '"' + "9" * 1_000 + '"', "1 # " + "[a." * 1_000],
)
def test_strings_and_comments_hold_anything(inside: str) -> None:
    assert "z" in parse_toml(f"z = {inside}", "study")


def test_many_numbers_are_no_depth() -> None:
    assert len(parse_toml(f"z = {[0.5] * 2_000}\ny = [{'[0.5, 1.5], ' * 500}]", "study")["z"]) == 2_000
    Study.parse(template())


SPOKEN = (
    template()
    .replace("currency =", 'language = "en"\ncurrency =', 1)
    .replace(
        "[response]",
        '[invitation]\nasked_by = {en = "We", de = "Wir"}\npurpose = "To know."\ncontact = "us"\n[response]',
        1,
    )
)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('language = "en"', "", "language is missing. Texts are given in en, de: say which"),
        (
            'language = "en"',
            'language = "fr"',
            "A text is given in en, de. Give every text of .* fr, en, de",
        ),
        ('"To know."', '{en = "To know."}', "A text is given in en. Give every text of .* en, de"),
        ('de = "Wir"', 'de = ""', "invitation.asked_by.de is ''; it must not be empty"),
        ('de = "Wir"', "de = 5", "invitation.asked_by.de is 5; it must be text, in quotes"),
        ('de = "Wir"', 'German = "Wir"', "invitation.asked_by.German is no code of a language"),
        ('{en = "We", de = "Wir"}', "{}", "invitation.asked_by is empty; give a text for each language"),
        ('"To know."', "5", "invitation.purpose is 5; it must be text, in quotes"),
    ],
)
def test_texts_in_several_languages_are_all_in_the_same_ones(before: str, after: str, words: str) -> None:
    assert before in SPOKEN
    with pytest.raises(InputError, match=words):
        Study.parse(SPOKEN.replace(before, after))


def test_a_study_speaks_somebody_s_language_or_its_own_and_stays_the_same_study() -> None:
    study = Study.parse(SPOKEN)
    said = {language: study.in_language(language).invitation for language in ("en", "de", "fr")}
    assert {language: words and words.asked_by for language, words in said.items()} == {
        "en": "We",
        "de": "Wir",
        "fr": "We",
    }
    assert Study.from_declaration(study.declaration()) == study


def test_labels_are_of_levels_that_there_are() -> None:
    levels = template().replace(
        "[design]", '[[features]]\nname = "extra"\nlevels = ["a", "b"]\nlevel_labels = {c = "C"}\n[design]', 1
    )
    with pytest.raises(InputError, match=r"level_labels\.c is given, but Feature 'extra' has no such level"):
        Study.parse(levels)
