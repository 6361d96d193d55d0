"""One player's receipt, from the file of all of them or from her own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
from pydantic import ValidationError

from truthful.errors import InputError
from truthful.release.records import Receipt

LAST = ("group", "payment")  # the columns after the record itself, which ends with the report


def read_receipt(path: Path, player: str | None = None) -> Receipt:
    """A receipt from one player's JSON file, or from a Parquet file of many."""
    if path.suffix != ".parquet":
        return Receipt.load(path)
    if player is None:
        raise InputError(f"{path.name} holds many receipts. Say whose with --player.")
    try:
        return find_receipt(pa.parquet.read_table(path), player)
    except FileNotFoundError:
        raise InputError(f"There is no file {str(path)!r}.") from None
    except (pa.ArrowException, OSError) as problem:
        reason = str(problem).splitlines()[0].rstrip(".")
        raise InputError(
            f"{path} cannot be read as Parquet: {reason}. Give the settlement's receipts.parquet."
        ) from None


def find_receipt(receipts: Any, player: str | int) -> Receipt:
    """One player's receipt out of a table of receipts."""
    names = receipts.column_names
    if names[:1] != ["player"] or tuple(names[-2:]) != LAST or len(names) < 4:
        raise InputError(
            f"A table with the columns {', '.join(names)} holds no receipts. Give receipts.parquet."
        )
    wanted = pa.compute.equal(receipts.column("player").cast("string"), str(player))
    found = receipts.filter(wanted).to_pylist()
    if not found:
        raise InputError(f"There is no receipt of player {str(player)!r} among {receipts.num_rows:,}.")
    *features, report = names[1:-2]
    row = found[0]
    try:
        return Receipt(
            player=str(row["player"]),
            features={name: row[name] for name in features},
            report=row[report],
            group=row["group"],
            payment=row["payment"],
        )
    except ValidationError as problem:
        first = problem.errors()[0]
        raise InputError(
            f"The receipt of player {str(player)!r} is broken: {first['loc'][0]}: {first['msg']}."
        ) from None
