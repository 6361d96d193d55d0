"""The errata as a list: complete, in order, the same every time, each with a test; and the page made from them."""

from __future__ import annotations

import ast
import math
import re
from pathlib import Path

import pages
from errata_page import page

from truthful.errata import Erratum, errata

FOUND = errata()
TESTS = Path(__file__).with_name("test_errata_numbers.py")


def example(published: float, correct: float) -> Erratum:
    words = ("E1", "title", "where", "claim", "fact", "because", "example", "meaning")
    return Erratum(*words, published, correct, "test")


def test_errata_are_numbered_from_one_without_gaps() -> None:
    assert [erratum.number for erratum in FOUND] == [f"E{i + 1}" for i in range(len(FOUND))]
    assert len(FOUND) >= 24


def test_every_erratum_says_everything() -> None:
    for erratum in FOUND:
        words = (erratum.title, erratum.where, erratum.claim, erratum.fact, erratum.because, erratum.example)
        assert all(words), erratum.number
        assert erratum.meaning, erratum.number


def test_every_erratum_has_two_different_finite_numbers() -> None:
    for erratum in FOUND:
        assert math.isfinite(erratum.published), erratum.number
        assert math.isfinite(erratum.correct), erratum.number
        assert len(set(erratum.numbers())) == 2, erratum.number


def test_every_erratum_names_a_test_that_exists_and_is_named_after_it() -> None:
    tree = ast.parse(TESTS.read_text(encoding="utf-8"))
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for erratum in FOUND:
        assert erratum.test in functions
        assert erratum.test.startswith(f"test_{erratum.number.lower()}_")
    assert {name for name in functions if name.startswith("test_e")} == {erratum.test for erratum in FOUND}


def test_errata_are_the_same_every_time() -> None:
    assert errata() == FOUND


def test_numbers_have_three_digits_or_as_many_as_tell_them_apart() -> None:
    assert example(2.0, 30.0).numbers() == ("2.00", "30.0")
    assert example(0.771354, 0.771488).numbers() == ("0.7714", "0.7715")
    assert example(-1.0, 0.5).numbers() == ("−1.00", "0.500")


def test_the_page_is_the_one_that_the_errata_make() -> None:
    assert pages.ERRATA.read_text(encoding="utf-8") == page(), "Run `python tools/pages.py`."


def test_the_page_has_every_erratum_in_its_table_and_in_a_section() -> None:
    text = page()
    for erratum in FOUND:
        published, correct = erratum.numbers()
        assert sum(line.startswith(f"| {erratum.number} | ") for line in text.splitlines()) == 1
        section = text.split(f"\n## {erratum.number}. {erratum.title}\n")[1].split("\n## ")[0]
        assert f"published {published}, correct {correct}." in section
        assert f"`{erratum.test}`" in section


def test_indices_and_exponents_of_the_page_are_set_and_not_spelled() -> None:
    text = re.sub(r"`[^`]*`", "", page())
    assert "λ<sub>min</sub>(XᵀX) <" in text
    assert "n<sup>−3/2+δ</sup>" in text
    assert "d<sup>−t²</sup>" in text
    assert not re.findall(r"\w_\w|\^", text)
