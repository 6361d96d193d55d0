"""Files as survey people have them: whatever the format, the same records come out, or a sentence says why not."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyreadstat
import pytest
from support.commands import Run
from support.generators_intake import COLUMNS, GAMBLING, GOOD, joined
from support.reports_read import read, refusal

from truthful.errors import FileNote, InputError
from truthful.intake import Intake, number_columns, open_reports, read_features, read_players
from truthful.intake.rules import BadReports
from truthful.plan import Plan, design
from truthful.settlement import settle

#: The good reports, and values that formats are wont to spoil: 0.1, a whole number as an id, one with a decimal.
ROWS: list[list[Any]] = [
    [7, 18, "north", 0],
    [8, 30.1, "south", 12.5],
    [10, 42, "east", 200],
    [11, 55.25, "north", 0.1],
]
TEXT = [[str(value) for value in row] for row in ROWS]
REGIONS = {1.0: "north", 2.0: "south", 3.0: "east"}
FRAME = pd.DataFrame(ROWS, columns=list(COLUMNS))
CODED = FRAME.assign(region=FRAME["region"].map({name: code for code, name in REGIONS.items()}))


def text(rows: list[list[str]], separator: str = ",", end: str = "\n", header: Any = COLUMNS) -> str:
    sink = io.StringIO()
    csv.writer(sink, delimiter=separator, lineterminator=end).writerows([header, *rows])
    return sink.getvalue()


def commas(rows: list[list[str]] = TEXT) -> list[list[str]]:
    return [[value.replace(".", ",") for value in row] for row in rows]


def workbook(path: Path, *sheets: list[list[Any]]) -> Path:
    book = openpyxl.Workbook()
    for number, rows in enumerate(sheets):
        sheet = book.active if number == 0 else book.create_sheet(f"Sheet{number + 1}")
        assert sheet is not None
        sheet.title = f"Sheet{number + 1}"
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def records(source: Any, columns: dict[str, str] | None = None) -> Any:
    """Players, records and numbers on the grid, as a settlement reads them."""
    with open_reports(source, COLUMNS, numbers=number_columns(GAMBLING), columns=columns or {}) as reports:
        intake = Intake(GAMBLING)
        intake.open(reports)
        batches = [batch for piece in reports.pieces() for batch in intake.batches(piece)]
        intake.finish()
    return joined(batches)


def refused(source: Any, columns: dict[str, str] | None = None) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FileNote)
        with pytest.raises(InputError) as caught:
            records(source, columns)
    return str(caught.value)


def written(directory: Path, kind: str) -> Path:
    """The reports in a file of this kind."""
    path = directory / f"reports.{kind.split()[0]}"
    match kind:
        case "csv":
            path.write_text(text(TEXT))
        case "csv of Excel":
            path.write_bytes(b"sep=;\r\n" + text(TEXT, ";", "\r\n").encode())
        case "csv with semicolons":
            path.write_bytes(b"\xef\xbb\xbf" + text(TEXT, ";").encode())
        case "csv in UTF-16":
            path.write_text(text(TEXT, "\t"), encoding="utf-16")
        case "tsv" | "tab" | "txt":
            path.write_text(text(TEXT, "\t"))
        case "tsv.gz":
            path.write_bytes(gzip.compress(text(TEXT, "\t").encode("utf-16")))
        case "csv of R":
            path.write_text(text([[str(i), *row] for i, row in enumerate(TEXT, 1)], header=("", *COLUMNS)))
        case "xlsx":
            workbook(path, [list(COLUMNS), *ROWS])
        case "xlsx of texts":
            workbook(path, [[], list(COLUMNS), *TEXT, [], [" "]])
        case "dta":
            pyreadstat.write_dta(CODED, path, variable_value_labels={"region": REGIONS})
        case "dta of floats":
            CODED.astype({"age": "float32", "weekly_spend": "float32"}).to_stata(
                path,
                write_index=False,
                value_labels={"region": {int(code): name for code, name in REGIONS.items()}},
            )
        case "sav" | "zsav":
            pyreadstat.write_sav(
                CODED, path, variable_value_labels={"region": REGIONS}, row_compress=kind == "zsav"
            )
    return path


PLAYERS = ["7", "8", "10", "11"]


@pytest.mark.parametrize(
    "kind",
    [
        "csv of Excel",
        "csv with semicolons",
        "csv in UTF-16",
        "csv of R",
        "tsv",
        "tab",
        "txt",
        "tsv.gz",
        "xlsx",
        "xlsx of texts",
        "dta",
        "dta of floats",
        "sav",
        "zsav",
    ],
)
def test_every_format_gives_the_bits_that_csv_gives(tmp_path: Path, kind: str) -> None:
    found, expected = records(written(tmp_path, kind)), records(written(tmp_path, "csv"))
    assert found == expected
    assert found[0] == PLAYERS


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(("name", "separator"), [("r.csv", ";"), ("r.tsv", "\t")])
def test_decimal_commas_are_read_where_they_are_certain_and_told(
    tmp_path: Path, name: str, separator: str, end: str
) -> None:
    (tmp_path / name).write_text(text(commas(), separator, end))
    with pytest.warns(FileNote, match=f"In {name} numbers are read with a decimal comma."):
        assert records(tmp_path / name) == records(written(tmp_path, "csv"))


@pytest.mark.parametrize(
    ("ages", "expected"),
    [
        (
            ["20,5", "20.5"],
            "have a decimal comma (row 2, column 'age') and some a point (row 3, column 'age')",
        ),
        (
            ["30", "1,234"],
            "whether the comma in numbers (row 3, column 'age' is the first) is a decimal comma or",
        ),
        (
            ["1.234", "30"],
            "whether the point in numbers (row 2, column 'age' is the first) is a decimal point or",
        ),
        (["20,5", "1.234,5"], "'1.234,5', which is not a number"),
        (["20,5", "1,234,567"], "'1,234,567', which is not a number"),
    ],
)
def test_a_comma_or_point_that_may_set_thousands_apart_is_refused(
    tmp_path: Path, ages: list[str], expected: str
) -> None:
    (tmp_path / "r.csv").write_text(text([[str(k), age, "north", "1"] for k, age in enumerate(ages)], ";"))
    assert expected in refused(tmp_path / "r.csv")


def test_points_of_thousands_do_not_matter_in_ids_and_levels_or_beside_a_certain_number(
    tmp_path: Path,
) -> None:
    (tmp_path / "r.csv").write_text(
        text([["1.234", "20.5", "north", "1.234"], ["1,234", "30", "east", "0"]], ";")
    )
    found = records(tmp_path / "r.csv")
    assert found[0] == ["1.234", "1,234"]
    assert found[1][0]["weekly_spend"] == 1.234


def test_a_header_with_two_separators_is_read_as_the_name_of_the_file_says(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text('player,age;x,"a;b"\n1,2,3\n')
    assert read(tmp_path / "r.csv", ("player", "age;x", "a;b")) == [{"player": "1", "age;x": "2", "a;b": "3"}]
    (tmp_path / "one.csv").write_text('"a;b"\n"1;2"\n')
    assert read(tmp_path / "one.csv", ("a;b",)) == [{"a;b": "1;2"}]


def test_an_encoding_that_is_not_certain_is_named_with_what_to_do(tmp_path: Path) -> None:
    for encoding in ("utf-16-le", "utf-16-be"):
        (tmp_path / "r.csv").write_text(text(TEXT), encoding=encoding)
        assert refusal(tmp_path / "r.csv") == (
            "The file r.csv looks like UTF-16, but lacks the mark at its start that would say so. "
            "Save it as 'CSV UTF-8'."
        )


# Qualtrics


HEADER = ["StartDate", "Finished", "ResponseId", "Q3", "Q5", "Q7"]
MAPPED = {"player": "ResponseId", "age": "Q3", "region": "Q5", "weekly_spend": "Q7"}
BELOW = [
    ["Start Date", "Finished", "Response ID", "How old\n\nare you?", 'Where, "roughly"?', "How much?"],
    [f'{{"ImportId":"QID{number}"}}' for number in range(6)],
]


def qualtrics(rows: list[list[str]] = TEXT) -> list[list[str]]:
    return [*BELOW, *(["2026-01-01", "1", *row] for row in rows)]


@pytest.mark.parametrize("name", ["q.csv", "q.xlsx"])
def test_the_rows_of_qualtrics_below_the_header_are_skipped_and_told(tmp_path: Path, name: str) -> None:
    if name == "q.csv":
        (tmp_path / name).write_text(text(qualtrics(), header=HEADER))
    else:
        workbook(tmp_path / name, [HEADER, *qualtrics()])
    with pytest.warns(
        FileNote, match=f"In {name} rows 2 and 3 are no records but Qualtrics' questions and ids"
    ):
        assert records(tmp_path / name, MAPPED) == records(written(tmp_path, "csv"))


def test_rows_below_the_header_are_counted(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text(text(qualtrics([*TEXT, ["12", "NA", "north", "1"]]), header=HEADER))
    assert refused(tmp_path / "q.csv", MAPPED) == (
        "In q.csv, row 8, column 'Q3': Feature 'age' of player '12' is missing. "
        "Fill in the value or leave the record out."
    )


# Which column is which


SOURCES: dict[str, Callable[[Path], Any]] = {
    "csv": lambda path: (
        path / "r.csv",
        (path / "r.csv").write_text(text(TEXT, header=["id", "a", "b", "Q7"])),
    )[0],
    "frame": lambda path: pd.DataFrame(ROWS, columns=["id", "a", "b", "Q7"]).astype({"id": str}),
    "stream": lambda path: iter([SOURCES["frame"](path)]),
    "parquet": lambda path: (path / "r.parquet", SOURCES["frame"](path).to_parquet(path / "r.parquet"))[0],
    "xlsx": lambda path: workbook(path / "r.xlsx", [["id", "a", "b", "Q7"], *ROWS]),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_columns_of_any_source_may_have_other_headers(tmp_path: Path, kind: str) -> None:
    mapped = {"player": "id", "age": "a", "region": "b", "weekly_spend": "Q7"}
    expected = records(written(tmp_path, "csv"))
    assert records(SOURCES[kind](tmp_path), mapped) == expected


def test_columns_that_are_not_asked_for_are_ignored_by_whoever_says_which_is_which(tmp_path: Path) -> None:
    table = GOOD.append_column("email", pa.array(["x"] * 5)).append_column("Q7", GOOD["age"])
    assert "columns the study does not have: 'email', 'Q7'" in refused(table)
    assert records(table, {"age": "Q7"}) == records(GOOD)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            {"spend": "Q7"},
            "Column 'Q7' is given for 'spend', which is not asked for. "
            "Choose among 'player', 'age', 'region', 'weekly_spend'.",
        ),
        (
            {"age": "weekly_spend"},
            "Column 'weekly_spend' is given for 'age', 'weekly_spend'. Give each its own.",
        ),
        ({"age": "Q9"}, "In the table of reports there is no column 'Q9'; the columns are"),
    ],
)
def test_columns_that_cannot_be_are_refused(columns: dict[str, str], expected: str) -> None:
    assert refused(GOOD, columns).startswith(expected)


def test_features_and_players_are_read_from_columns_of_other_names() -> None:
    table = GOOD.rename_columns(["id", "Q1", "Q2", "Q3"])
    mapped = {"age": "Q1", "region": "Q2", "player": "id"}  # one for all commands
    assert (read_features(GAMBLING, table, columns=mapped) == read_features(GAMBLING, GOOD)).all()
    assert read_players(table, {"player": "id"}) == GOOD["player"].to_pylist()


# Rows


def test_rows_are_counted_as_spreadsheets_show_them(tmp_path: Path) -> None:
    bad = [["a", "20", "north", "1"], ["b", "20", "no\nrth", "1"], ["c", "130", "north", "1"]]
    expected = "row 4: Feature 'age' of player 'c' is 130"
    (tmp_path / "r.csv").write_text(text(bad))
    assert expected in refused(tmp_path / "r.csv")
    assert expected in refused(workbook(tmp_path / "r.xlsx", [list(COLUMNS), *bad]))
    assert "row 5: Feature" in refused(workbook(tmp_path / "r.xlsx", [[], list(COLUMNS), *bad]))


def test_rows_of_statistics_files_count_from_1_and_those_of_tables_from_0(tmp_path: Path) -> None:
    bad = CODED.assign(age=[20, 20, 130, 20])
    pyreadstat.write_sav(bad, tmp_path / "r.sav", variable_value_labels={"region": REGIONS})
    assert refused(tmp_path / "r.sav").startswith("In r.sav, row 3 (rows count from 1): Feature 'age'")
    frame = FRAME.assign(age=[20, 20, 130, 20])
    frame.to_parquet(tmp_path / "r.parquet")
    assert refused(frame).startswith("In the table of reports, row 2 (rows count from 0): Feature 'age'")
    assert refused(tmp_path / "r.parquet").startswith(
        "In r.parquet, row 2 (rows count from 0): Feature 'age'"
    )


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_blank_lines_are_not_counted_and_that_is_told_unless_they_end_the_file(
    tmp_path: Path, end: str
) -> None:
    lines = text([["a", "130", "north", "1"]], end=end)
    (tmp_path / "r.csv").write_bytes((lines + end + end).encode())
    assert refused(tmp_path / "r.csv").startswith("In r.csv, row 2: ")
    (tmp_path / "r.csv").write_bytes(lines.replace(end, end + end, 1).encode())
    assert refused(tmp_path / "r.csv").startswith("In r.csv (blank lines not counted), row 2: ")


# Nothing


@pytest.mark.parametrize("nothing", ["", " ", "NA", "na", "NaN", "N/A", "#N/A", ".", " NA "])
def test_whatever_stands_for_nothing_is_missing_alike(nothing: str) -> None:
    for column, sentence in (
        ("age", "Feature 'age' of player 'p' is missing."),
        ("region", "Feature 'region' of player 'p' is missing."),
        ("weekly_spend", "Response 'weekly_spend' of player 'p' is missing."),
        ("player", "The player id is missing."),
    ):
        row = {"player": "p", "age": "20", "region": "north", "weekly_spend": "1"} | {column: nothing}
        with pytest.raises(BadReports) as caught:
            records({name: [value] for name, value in row.items()})
        assert [bad.sentence for bad in caught.value.records] == [sentence]


def test_a_declared_level_is_one_whatever_else_it_stands_for() -> None:
    declared = GAMBLING.declaration()
    declared["features"][1]["levels"] = ["NA", "EU", "."]
    study = type(GAMBLING).from_declaration(declared)
    rows = read_features(study, {"age": [20, 20, 20], "region": ["NA", ".", "EU"]})
    assert len({tuple(row) for row in rows.tolist()}) == 3
    with pytest.raises(BadReports, match="'region' of this person is missing"):
        read_features(study, {"age": [20], "region": ["N/A"]})


# Spreadsheets


def test_another_sheet_is_read_by_its_name(tmp_path: Path) -> None:
    path = workbook(tmp_path / "r.xlsx", [["code", "meaning"], [1, "x"]], [list(COLUMNS), *ROWS])
    assert records(f"{path}#Sheet2") == records(written(tmp_path, "csv"))
    assert refused(path).endswith(
        " This is sheet 'Sheet1'; another one is read as r.xlsx#Sheet2. "
        "Or say which one it is: columns={'player': 'HEADER'}."
    )
    assert refused(f"{path}#Data") == "In r.xlsx there is no sheet 'Data'; there are 'Sheet1', 'Sheet2'."


def changed(row: int, column: int, value: Any) -> list[list[Any]]:
    rows = [list(COLUMNS), *(list(one) for one in ROWS)]
    rows[row - 1][column] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            changed(3, 1, datetime.date(2026, 2, 1)),
            "In r.xlsx, row 3, column 'age' holds a date or a time. Write it as text or as a number.",
        ),
        (
            changed(4, 0, 12345678901234567),
            "In r.xlsx, row 4, column 'player' holds a number of more than 15 digits, of which spreadsheets lose some. "
            "Write it as text.",
        ),
        (
            [*changed(2, 0, 7), [], [12, 20, "north", 1]],
            "In r.xlsx, row 6 is empty, and more rows follow. Delete it.",
        ),
        (changed(3, 2, None), "In r.xlsx, row 3: Feature 'region' of player '8' is missing."),
        (changed(3, 0, "7"), "In r.xlsx, row 3: Player '7' appears again; the first record is in row 2."),
        (changed(1, 1, None), "In r.xlsx there is no column 'age'; the columns are 'player', 'region',"),
        (changed(1, 2, "age"), "In r.xlsx several columns are named 'age'. Keep one of each name."),
        ([[]], "Sheet 'Sheet1' of r.xlsx is empty. It must have a header and one row for each player."),
        ([list(COLUMNS)], "In r.xlsx there are no reports. There must be one row for each player."),
    ],
)
def test_what_cannot_be_read_in_a_spreadsheet_is_told_with_its_cell(
    tmp_path: Path, rows: list[list[Any]], expected: str
) -> None:
    path = workbook(tmp_path / "r.xlsx", rows)
    if "appears again" in expected:
        assert read_players_refusal(path) == "In r.xlsx, player '7' stands twice. Leave one of the rows out."
    else:
        assert refused(path).startswith(expected)


def read_players_refusal(source: Any) -> str:
    with pytest.raises(InputError) as caught:
        read_players(source)
    return str(caught.value)


def test_a_header_over_several_columns_is_refused(tmp_path: Path) -> None:
    path = workbook(
        tmp_path / "r.xlsx", [["player", "age", "", "region", "weekly_spend"], [1, 20, 30, "north", 1]]
    )
    book = openpyxl.load_workbook(path)
    sheet = book.active
    assert sheet is not None
    sheet.merge_cells("B1:C1")
    book.save(path)
    assert refused(path) == (
        "In r.xlsx the header 'age' stands over 2 columns. "
        "Unmerge its cells, and give each column a header of its own."
    )


# Stata and SPSS


def test_values_that_are_declared_missing_are_missing(tmp_path: Path) -> None:
    frame = CODED.assign(age=[20.0, -9.0, 20.0, 20.0])
    labels = {"region": REGIONS, "age": {-9.0: "refused"}}
    path = tmp_path / "r.sav"
    pyreadstat.write_sav(frame, path, variable_value_labels=labels, missing_ranges={"age": [-9]})
    assert "row 2 (rows count from 1): Feature 'age' of player '8' is missing." in refused(path)
    pyreadstat.write_dta(
        CODED.assign(age=[20.0, np.nan, 20.0, 20.0]), tmp_path / "r.dta", variable_value_labels=labels
    )
    assert "row 2 (rows count from 1): Feature 'age' of player '8' is missing." in refused(tmp_path / "r.dta")


def test_a_value_without_a_label_is_told_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "r.dta"
    pyreadstat.write_dta(CODED, path, variable_value_labels={"region": {1.0: "north", 2.0: "south"}})
    assert "'region' of player '10' is '3', not one of its levels north, south, east" in refused(path)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("r.xlsx", "a spreadsheet"), ("r.dta", "a file of Stata or SPSS"), ("r.sav", "a file of")],
)
def test_a_broken_file_is_refused_in_plain_words(tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / name).write_bytes(b"nothing of the kind")
    assert refused(tmp_path / name).startswith(f"Cannot read {name} as {kind}")


@pytest.mark.parametrize(("name", "package"), [("r.xlsx", "python_calamine"), ("r.sav", "pyreadstat")])
def test_a_package_that_is_missing_is_named_with_what_installs_it(
    tmp_path: Path, name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).touch()
    monkeypatch.setitem(sys.modules, package, None)
    assert refused(tmp_path / name) == (
        f"To read {name} {package} is needed. Install it: pip install 'truthful[files]'."
    )


# On the command line


@pytest.mark.parametrize(
    "command",
    [
        ["settle", "plan.json", "q.csv", "--out", "o"],
        ["simulate", "plan.json", "--features", "q.csv"],
        ["plan", "study.toml", "--roster", "q.csv", "--budget", "10"],
        ["beliefs", "study.toml", "--data", "q.csv"],
        ["beliefs", "study.toml", "--roster", "q.csv", "--budget", "10"],
        ["assign", "study.toml", "--people", "q.csv", "--save", "drawn.csv"],
    ],
)
def test_every_command_that_reads_people_takes_columns(here: Path, run: Run, command: list[str]) -> None:
    Path("q.csv").write_text("player,price,region,spend\n1,2,north,3\n")
    name = "player" if command[0] == "assign" else "price"
    told = run(*command, "--column", f"{name}=Q9")
    assert told.code == 2
    assert "In q.csv there is no column 'Q9'; the columns are 'player', 'price'" in told.err
    assert f"Or say which one it is: --column {name}=HEADER." in told.err


def test_an_export_of_qualtrics_is_read_as_it_is_with_a_note(here: Path, run: Run) -> None:
    Path("q.csv").write_text(text(qualtrics(), header=HEADER))
    told = run(
        "assign", "study.toml", "--people", "q.csv", "--column", "player=ResponseId", "--save", "drawn.csv"
    )
    assert told.code == 0
    assert told.err == (
        "Note: In q.csv rows 2 and 3 are no records but Qualtrics' questions and ids; they are skipped.\n"
    )
    assert [
        line.split(",")[0].strip('"') for line in Path("drawn.csv").read_text().splitlines()[1:]
    ] == PLAYERS


@pytest.mark.parametrize("given", ["player", "=Q7", "player="])
def test_a_column_without_a_name_or_a_header_is_refused(here: Path, run: Run, given: str) -> None:
    told = run("settle", "plan.json", "reports.csv", "--out", "o", "--column", given)
    assert told.code == 2
    assert f"--column is {given!r}. Write a name and a header, such as weekly_spend=Q7." in told.err


def test_a_settlement_of_a_spreadsheet_pays_what_that_of_csv_pays(here: Path) -> None:
    table = pyarrow.csv.read_csv("reports.csv")
    workbook(Path("r.xlsx"), [["ID", "P", "R", "S"], *(list(row.values()) for row in table.to_pylist())])
    plan, columns = Plan.load("plan.json"), dict(zip(table.column_names, ["ID", "P", "R", "S"], strict=True))
    settled = settle(plan, "r.xlsx", columns=columns, seed=1)
    assert settled.payments.equals(settle(plan, "reports.csv", seed=1).payments)


def test_a_plan_is_made_from_a_roster_with_other_headers() -> None:
    study = type(GAMBLING).from_declaration(GAMBLING.declaration() | {"privacy": {"protects": "answers"}})
    people = pa.table({"Q1": np.linspace(18, 90, 90), "Q2": ["north", "south", "east"] * 30})
    asked: dict[str, Any] = {"epsilon": 1.0, "score_weight": 1.0}
    columns = {"age": "Q1", "region": "Q2"}
    plan = design(study, roster=people, columns=columns, **asked)
    expected = design(study, roster=people.rename_columns(["age", "region"]), **asked)
    assert plan.sha256 == expected.sha256
