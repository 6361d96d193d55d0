from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.generators_intake import (
    BAD,
    GAMBLING,
    one,
    refused,
)

from truthful.study import Study


def test_a_file_with_every_kind_of_fault_gives_one_clear_report(tmp_path: Path) -> None:
    (tmp_path / "reports.csv").write_text(BAD)
    assert (
        str(refused(tmp_path / "reports.csv"))
        == """\
In reports.csv there are 17 bad values, in 13 of 15 records:
  row 3: Feature 'age' of player 'p-02' is missing.
  row 4: Feature 'age' of player 'p-03' is missing.
  row 5: Feature 'age' of player 'p-04' is 'abc', which is not a number.
  row 6: Response 'weekly_spend' of player 'p-05' is '12,5', which is not a number.
  row 7: Feature 'age' of player 'p-06' is 'inf', which is not a finite number.
  row 8: Feature 'age' of player 'p-0042' is 130, outside its declared range [18, 90].
  row 9: Response 'weekly_spend' of player 'p-08' is -0.01, outside its declared range [0, 200].
  row 10: Feature 'region' of player 'p-09' is 'nroth', not one of its levels north, south, east.
  row 11: Feature 'region' of player 'p-10' is missing.
  row 12: The player id is missing.
  row 13: Player 'p-01' appears again; the first record is in row 2.
  row 14: Feature 'age' of player 'p-13' is 17, outside its declared range [18, 90].
  row 14: Feature 'region' of player 'p-13' is 'west', not one of its levels north, south, east.
  row 14: Response 'weekly_spend' of player 'p-13' is '1e400', which is not a finite number.
  row 15: Player 'p-01' appears again; the first record is in row 2.
  row 15: Feature 'age' of player 'p-01' is missing.
  row 15: Response 'weekly_spend' of player 'p-01' is missing.
Without a player id: Give every record the id of its player.
Duplicate: Keep one record for each player.
Missing: Fill in the value or leave the record out.
Not a number: Write a plain number, such as 12.5.
Out of range: Correct the record or widen the range in study.toml (the range is public).
Unknown level: Correct the record or add the level in study.toml (the levels are public).
Or choose on_bad='clip' to move numbers into their range; where records are protected, 'drop' leaves out bad ones."""
    )


def test_a_long_report_is_cut_and_its_rest_counted_by_kind(tmp_path: Path) -> None:
    ages = ["30", *["130"] * 300, *["x"] * 20, *[""] * 18]
    (tmp_path / "r.csv").write_text(
        "player,age,region,weekly_spend\n"
        + "".join(f"p-{i},{age},north,10\n" for i, age in enumerate(ages, start=1))
    )
    error = refused(tmp_path / "r.csv", limit=3)
    lines = str(error).splitlines()
    assert lines[:6] == [
        "In r.csv there are 338 bad values, in 338 of 339 records:",
        "  row 3: Feature 'age' of player 'p-2' is 130, outside its declared range [18, 90].",
        "  row 4: Feature 'age' of player 'p-3' is 130, outside its declared range [18, 90].",
        "  row 5: Feature 'age' of player 'p-4' is 130, outside its declared range [18, 90].",
        "  and 335 more: 18 missing, 20 not a number, 297 out of range",
        "Missing: Fill in the value or leave the record out.",
    ]
    assert len(error.records) == 3
    assert (error.bad_records, error.all_records) == (338, 339)
    assert sum(error.counts.values()) == 338


def test_the_report_lists_twenty_by_default_over_all_batches() -> None:
    tables = [one(player=f"q-{i}", age=200 + i).slice(1, 1) for i in range(50)]
    error = refused(tables)
    assert [record.row for record in error.records] == list(range(20))
    assert "and 30 more: 30 out of range" in str(error)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"player": "p-0042", "age": 130},
            "Feature 'age' of player 'p-0042' is 130, outside its declared range [18, 90]. "
            "Correct the record or widen the range in study.toml (the range is public).",
        ),
        (
            {"age": 90.00000000000001},
            "Feature 'age' of player 'p-1' is 90.00000000000001, outside its declared range [18, 90]. "
            "Correct the record or widen the range in study.toml (the range is public).",
        ),
        (
            {"weekly_spend": float("-inf")},
            "Response 'weekly_spend' of player 'p-1' is -inf, which is not a finite number. "
            "Write a plain number, such as 12.5.",
        ),
        (
            {"weekly_spend": None},
            "Response 'weekly_spend' of player 'p-1' is missing. Fill in the value or leave the record out.",
        ),
        (
            {"region": "x" * 60},
            f"Feature 'region' of player 'p-1' is '{'x' * 40}'…, not one of its levels north, south, east. "
            "Correct the record or add the level in study.toml (the levels are public).",
        ),
        (
            {"region": "\x1b[2J"},
            "Feature 'region' of player 'p-1' is '\\x1b[2J', not one of its levels north, south, east. "
            "Correct the record or add the level in study.toml (the levels are public).",
        ),
        ({"player": "  "}, "The player id is missing. Give every record the id of its player."),
        (
            {"player": "007"},
            "Player '007' appears again; the first record is in row 0. Keep one record for each player.",
        ),
    ],
)
def test_a_single_fault_is_told_in_one_sentence_with_advice(changes: dict[str, Any], expected: str) -> None:
    assert str(refused(one(**changes))) == f"In the table of reports, row 1 (rows count from 0): {expected}"


def test_a_bad_record_of_nobody_is_told_too() -> None:
    sentences = [record.sentence for record in refused(one(player="", age=17)).records]
    assert sentences == [
        "The player id is missing.",
        "Feature 'age' of a player without an id is 17, outside its declared range [18, 90].",
    ]


def test_the_advice_names_the_study_file() -> None:
    study = GAMBLING.at(Path("somewhere/gambling.toml"))
    assert "widen the range in gambling.toml" in str(refused(one(age=1), study=study))


def test_many_levels_are_not_all_listed() -> None:
    levels = ", ".join(f'"l{i}"' for i in range(30))
    text = f"""
    name = "Levels"
    currency = "USD"
    response = {{ name = "y", low = 0, high = 1 }}
    features = [{{ name = "f", levels = [{levels}] }}]
    design = {{ kind = "observed" }}
    beliefs = {{ signal = 0.5 }}
    costs = {{ kind = "pareto", tail = 2.0, scale = 0.05 }}
    """
    error = refused({"player": ["a"], "f": ["l30"], "y": [1]}, study=Study.parse(text))
    assert "is 'l30', not one of its 30 levels l0, l1, l2, l3, l4, l5, l6, l7, …." in str(error)
