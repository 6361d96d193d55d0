"""The command line where plans are solved for, and where the paper's errata are told."""

import json
import re
from pathlib import Path

from commands import Run

BIG = ["plan", "study.toml", "--players", "20000", "--budget", "5000"]


def test_a_budget_and_a_panel_are_enough_for_a_plan_that_settles(here: Path, run: Run) -> None:
    told = run(*BIG, "--save", "solved.json")
    assert told.code == 0
    places = [
        told.out.index(words)
        for words in (
            "What is guaranteed",
            "Proved, and the paper's formulas at the same parameters",
            "Estimators compared",
            "Chosen: known-design",
            "How",
            "1 USD more lowers the error by",
            "--least-slope 0.9 would bring",
            "Saved solved.json",
        )
    ]
    assert places == sorted(places)
    assert run("settle", "solved.json", "reports.csv", "--out", "solved").code == 0


def test_the_json_of_a_solved_plan_says_what_was_asked_and_compared(here: Path, run: Run) -> None:
    record = json.loads(run(*BIG, "--json").out)
    assert record["answer"]["asked"] == {"players": 20000, "budget": 5000.0}
    assert record["answer"]["minimised"] == "error"
    assert record["answer"]["compared"][0]["estimator"] == record["parameters"]["estimator"]
    assert record["guarantees"]["budget"]["cap"] <= 5000


def test_an_infeasible_plan_says_what_would_help_in_words_and_as_json(here: Path, run: Run) -> None:
    asked = ["plan", "study.toml", "--players", "20000", "--budget", "1", "--epsilon", "1"]
    told = run(*asked)
    assert (told.code, told.out) == (1, "")
    assert "It would be feasible with" in told.err
    printed = run(*asked, "--json")
    record = json.loads(printed.out)
    assert (printed.code, printed.err, record["feasible"]) == (1, "", False)
    assert record["binding"] == next(iter(record["feasible_with"]))
    budget = str(record["feasible_with"]["budget"])
    assert run(*asked[:5], budget, *asked[6:]).code == 0


def test_a_cheapest_plan_tells_what_a_player_saves(here: Path, run: Run) -> None:
    told = run("plan", "study.toml", "--players", "20000", "--accuracy", "6", "--accuracy-of", "predictions")
    assert told.code == 0
    assert "for the least cost" in told.out
    assert "One more player saves" in told.out


def test_a_chart_is_drawn_where_it_is_asked_for(here: Path, run: Run) -> None:
    told = run(*BIG, "--chart", "frontier.svg")
    assert told.code == 0
    assert "Drew frontier.svg." in told.out
    assert Path("frontier.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_errata_are_printed_in_order_and_one_by_one(run: Run) -> None:
    told = run("errata")
    assert told.code == 0
    numbers = re.findall(r"^ (E\d+) ", told.out, flags=re.MULTILINE)
    assert numbers == [f"E{k}" for k in range(1, len(numbers) + 1)]
    assert len(numbers) >= 24
    one = run("errata", "e3")
    assert "E3: Sensitivity of ridge regression" in one.out
    record = json.loads(run("errata", "E3", "--json").out)
    assert record[0]["number"] == "E3"
    assert record[0]["correct"] > 3 * record[0]["published"]
