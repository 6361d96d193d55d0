"""The command line where plans are solved for, and where the paper's errata are told."""

import json
import re
from pathlib import Path

from support.commands import PLAN, Ran, Run

#: The features of the people themselves; that the file also has their answers does not matter.
SOLVED = ["plan", "study.toml", "--roster", "reports.csv", "--budget", "1500"]
BIG = ["plan", "study.toml", "--players", "20000"]


def places(told: Ran, *words: str) -> list[int]:
    return [told.out.index(sentence) for sentence in words]


def test_a_budget_and_a_roster_are_enough_for_a_plan_that_settles(here: Path, run: Run) -> None:
    told = run(*SOLVED, "--save", "solved.json")
    assert told.code == 0
    found = places(
        told,
        "What is guaranteed",
        "1,500.00 USD (3.00 USD per person)",
        "Proved, and the paper's formulas at the same parameters",
        "Estimators compared",
        "Chosen: instruments",
        "How",
        "500 people",
        "1 USD more lowers the error by",
        "Saved solved.json",
    )
    assert found == sorted(found)
    assert run("settle", "solved.json", "reports.csv", "--out", "solved").code == 0


def test_the_json_of_a_solved_plan_says_what_was_asked_and_compared(here: Path, run: Run) -> None:
    record = json.loads(run(*SOLVED, "--json").out)
    assert record["answer"]["asked"] == {"players": 500, "budget": 1500.0}
    assert record["answer"]["minimised"] == "error"
    assert record["answer"]["compared"][0]["estimator"] == record["parameters"]["estimator"]
    assert record["guarantees"]["budget"]["cap"] <= 1500
    assert record["roster"]["players"] == 500


def test_those_who_will_not_answer_are_planned_for(here: Path, run: Run) -> None:
    asked = ["plan", "study.toml", "--roster", "reports.csv", *PLAN[2:]]
    every, half = (json.loads(run(*asked, "--response-share", s, "--json").out) for s in ("1", "0.5"))
    assert (every["response_share"], half["response_share"]) == (1.0, 0.5)
    assert half["guarantees"]["accuracy"]["rmse"] > 1.4 * every["guarantees"]["accuracy"]["rmse"]
    assert "0.5: 250 answer" in run(*asked, "--response-share", "0.5").out


def test_the_json_of_an_infeasible_plan_says_what_would_help(here: Path, run: Run) -> None:
    asked = ["plan", "study.toml", "--players", "500", "--budget", "1", "--epsilon", "1", "--json"]
    printed = run(*asked)
    record = json.loads(printed.out)
    assert (printed.code, printed.err, record["feasible"]) == (1, "", False)
    assert record["binding"] == next(iter(record["feasible_with"]))
    budget = str(record["feasible_with"]["budget"])
    assert run(*asked[:5], budget, *asked[6:]).code == 0


def test_a_cheapest_plan_tells_what_a_player_saves(here: Path, run: Run) -> None:
    told = run(*BIG, "--accuracy", "6", "--accuracy-of", "predictions")
    assert told.code == 0
    assert "for the least cost" in told.out
    assert "One more player saves" in told.out


def test_a_chart_is_drawn_where_it_is_asked_for(here: Path, run: Run) -> None:
    told = run(*SOLVED, "--chart", "frontier.svg")
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
