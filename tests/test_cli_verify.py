"""`truthful verify` through its real entry point: what is not verified, and what cannot be."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.commands import Run


@pytest.mark.parametrize(
    ("field", "value"),
    [("payment", 9.0), ("report", 1.0), ("features", {"price": 1.0, "region": "east"})],
)
def test_a_changed_receipt_is_not_verified(settled: Path, run: Run, field: str, value: Any) -> None:
    receipt = json.loads(Path("receipt.json").read_text())
    receipt[field] = value
    Path("receipt.json").write_text(json.dumps(receipt))
    told = run("verify", "settlement/release.json", "receipt.json")
    assert told.code == 1
    assert "NOT verified" in told.out
    assert run("verify", "settlement/release.json", "receipt.json", "--json").code == 1


@pytest.mark.parametrize("field", ["leverage", "noise_scale", "peer_prediction", "own_prediction"])
def test_what_a_receipt_says_of_the_way_to_a_payment_decides_nothing(
    settled: Path, run: Run, field: str
) -> None:
    """Where sums are published, all of it is computed again from the release and her record."""
    receipt = json.loads(Path("receipt.json").read_text())
    receipt[field] += 0.1
    Path("receipt.json").write_text(json.dumps(receipt))
    assert run("verify", "settlement/release.json", "receipt.json").code == 0


def test_a_changed_release_is_an_input_error(settled: Path, run: Run) -> None:
    release = json.loads(Path("settlement/release.json").read_text())
    release["response"]["high"] = 300
    Path("changed.json").write_text(json.dumps(release))
    told = run("verify", "changed.json", "receipt.json")
    assert told.code == 2
    assert "it was changed" in told.err


@pytest.mark.parametrize(
    ("receipt", "message"),
    [
        (["nope.json"], "no receipt at 'nope.json'"),
        (["."], "'.': Is a directory"),
        (["plan.json"], "plan.json is not a receipt"),
        (["study.toml"], "study.toml is not a receipt"),
        (["settlement/receipts.parquet"], "Say whose with --player"),
        (["settlement/receipts.parquet", "--player", "nobody"], "no receipt of player 'nobody' among 500"),
        (["nope.parquet", "--player", "p-001"], "no file 'nope.parquet'"),
        (["broken.parquet", "--player", "p-001"], "broken.parquet cannot be read as Parquet"),
        (
            ["settlement/payments.parquet", "--player", "p-001"],
            "columns player, payment, paid holds no receipts",
        ),
        (["reports.parquet", "--player", "p-001"], "price, region, spend holds no receipts"),
        (["text.json"], "is 'much', not a number"),
        (["level.json"], "'me'; its levels are north, south, east"),
        (["lacking.json"], "has no feature 'price'"),
        (["halves.json"], "halves.json is not a receipt"),
        (["unpaid.json"], "unpaid.json is not a receipt: payment: "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_bad_receipt_is_told_in_one_message(
    settled: Path, run: Run, receipt: list[str], message: str
) -> None:
    Path("broken.parquet").write_bytes(Path("reports.parquet").read_bytes()[:500])
    for name, features in {
        "text.json": {"price": "much", "region": "east"},
        "level.json": {"price": 2.0, "region": "me"},
        "lacking.json": {"region": "east"},
    }.items():
        Path(name).write_text(
            json.dumps({**json.loads(Path("receipt.json").read_text()), "features": features})
        )
    hers = json.loads(Path("receipt.json").read_text())
    whole = {name: hers[name] for name in ("player", "features", "report", "payment")}
    halves = {"format": "truthful/receipt/1", "group": 0, **whole}
    Path("halves.json").write_text(json.dumps(halves))
    del hers["payment"]
    Path("unpaid.json").write_text(json.dumps(hers))
    told = run("verify", "settlement/release.json", *receipt)
    assert told.code == 2
    assert message in told.err
    assert told.err.startswith("Error: ")


@pytest.mark.parametrize("release", ["nope.json", ".", "plan.json", "study.toml", "reports.parquet"])
def test_a_bad_release_is_told_in_one_message(settled: Path, run: Run, release: str) -> None:
    told = run("verify", release, "receipt.json")
    assert (told.code, told.err.startswith("Error: ")) == (2, True)


def test_a_release_of_version_0_1_says_which_version_verifies_it(settled: Path, run: Run) -> None:
    path = settled / "settlement" / "release.json"
    path.write_text(path.read_text().replace("truthful/release/2", "truthful/release/1"))
    told = run("verify", "settlement/release.json", "receipt.json")
    assert told.code == 2
    assert "released by version 0.1" in told.err
