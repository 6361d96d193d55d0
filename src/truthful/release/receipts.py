"""One player's receipt, from the file of all of them or from her own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from truthful.errors import InputError
from truthful.release.release import Receipt, Release, read_content

#: The columns after the record itself, which ends with the report.
LAST = ("leverage", "noise_scale", "peer_prediction", "own_prediction", "payment")
#: Where people are asked what the others will say; the record then ends with that.
LAST_ASKED = (
    *("leverage", "noise_scale", "peer_prediction", "others_answer", "others_prediction", "surprise"),
    "payment",
)


def read_release(source: str | Path | bytes) -> Release:
    """A release, from its file or the content of one."""
    content, where = read_content(source, "release")
    if b'"truthful/release/1"' in content:
        raise InputError(
            f"{where} was released by version 0.1, which scored people against random halves. Verify it with that "
            "version."
        )
    return Release.parse(content, where)


def read_receipt(path: Path, player: str | None = None) -> Receipt:
    """A receipt from one player's JSON file, or from a Parquet file of many."""
    if path.suffix != ".parquet":
        return Receipt.load(path)
    if player is None:
        raise InputError(f"{path.name} holds many receipts. Say whose with --player.")
    import pyarrow as pa  # a receipt of one's own needs none
    import pyarrow.parquet

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
    import pyarrow.compute

    names = receipts.column_names
    last = LAST_ASKED if _ends_with(names, LAST_ASKED) else LAST
    if names[:1] != ["player"] or not _ends_with(names, last) or len(names) < 2 + len(last):
        raise InputError(
            f"A table with the columns {', '.join(names)} holds no receipts. Give receipts.parquet."
        )
    wanted = pyarrow.compute.equal(receipts.column("player").cast("string"), str(player))
    found = receipts.filter(wanted).to_pylist()
    if not found:
        raise InputError(f"There is no receipt of player {str(player)!r} among {receipts.num_rows:,}.")
    row, said = found[0], names[1 : -len(last)]
    *features, report = said[:-1] if last is LAST_ASKED else said
    asked = {said[-1]: row[said[-1]]} if last is LAST_ASKED else {}
    try:
        return Receipt(
            player=str(row["player"]),
            features={name: row[name] for name in features},
            report=row[report],
            **asked,
            **{name: row[name] for name in last},
        )
    except ValidationError as problem:
        first = problem.errors()[0]
        raise InputError(
            f"The receipt of player {str(player)!r} is broken: {first['loc'][0]}: {first['msg']}."
        ) from None


def _ends_with(names: list[str], last: tuple[str, ...]) -> bool:
    return tuple(names[-len(last) :]) == last
