"""The table of how tight the bounds are, in the theory page, is of the bounds as they are computed today."""

import importlib

import pages
import pytest


def test_the_table_of_tightness_has_the_bounds_of_this_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(pages.ROOT / "benchmarks"))
    tightness = importlib.import_module("tightness")
    table = pages.read("docs/theory.md").split(tightness.BEGIN)[1].split(tightness.END)[0].splitlines()[2:]
    lines = [tightness.line(row) for row in tightness.rows()]
    assert len(table) == len(lines) > 35
    for written, computed in zip(table, lines, strict=True):
        assert written.startswith(computed), (
            "python benchmarks/tightness.py --write brings the table up to date"
        )
