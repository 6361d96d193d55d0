"""`truthful pay`: what whoever pays is given, in coins, for a bank and for platforms."""

import csv
import json
from pathlib import Path

import pytest
from support.commands import Run

from truthful.settlement import read_bill


def test_a_file_of_players_and_coins_is_written_and_its_total_told(settled: Path, run: Run) -> None:
    told = run("pay", "settlement", "--save", "to-pay.csv")
    summary = json.loads(Path("settlement/settlement.json").read_text())
    total, players = f"{summary['total_in_coins']:,.2f} USD", f"{summary['players']:,} players"
    assert (told.code, told.out) == (
        0,
        f"Wrote to-pay.csv: {total} to {players}. Only whoever pays may see it.\n",
    )
    rows = list(csv.DictReader(Path("to-pay.csv").read_text().splitlines()))
    paid = list(csv.DictReader(Path("settlement/payments.csv").read_text().splitlines()))
    assert [float(row["amount"]) for row in rows] == [float(row["paid"]) for row in paid]
    assert sum(round(float(row["amount"]) * 100) for row in rows) == round(summary["total_in_coins"] * 100)
    assert oct(Path("to-pay.csv").stat().st_mode & 0o777) == "0o600"
    again = run("pay", "settlement", "--save", "to-pay.csv")
    assert (again.code, "already" in again.err) == (2, True)


@pytest.mark.parametrize("kind", ["prolific", "mturk"])
def test_platforms_are_refused_names_that_are_no_ids_of_theirs(settled: Path, run: Run, kind: str) -> None:
    told = run("pay", "settlement", "--format", kind, "--save", "to-pay.txt")
    assert told.code == 1
    assert told.err.startswith(f"Refused: {kind} cannot pay this. It pays in ")
    assert not Path("to-pay.txt").exists()


def test_what_is_no_settlement_or_no_format_is_told(settled: Path, run: Run) -> None:
    assert "There is no release at" in run("pay", ".", "--save", "x.csv").err
    assert "--format is 'paypal'; choose one of csv, prolific, mturk." in (
        run("pay", "settlement", "--format", "paypal", "--save", "x.csv").err
    )
    assert read_bill(settled / "settlement").currency == "USD"
