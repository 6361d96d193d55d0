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
