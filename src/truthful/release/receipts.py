"""One player's receipt, from the file of all of them or from her own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from truthful.errors import InputError
from truthful.release.release import Receipt, Release, format_of, parse_record
from truthful.release.release_of_halves import ReceiptOfHalves, ReleaseOfHalves

#: The columns after the record itself, which ends with the report: of one release, and of random halves.
LAST = ("leverage", "noise_scale", "peer_prediction", "own_prediction", "payment")
LAST_OF_HALVES = ("group", "payment")
#: Where people are asked what the others will say; the record then ends with that.
LAST_ASKED = (
    *("leverage", "noise_scale", "peer_prediction", "others_answer", "others_prediction", "surprise"),
    "payment",
)

AnyReceipt = Receipt | ReceiptOfHalves
AnyRelease = Release | ReleaseOfHalves


def read_release(source: str | Path | bytes) -> AnyRelease:
    """A release of either format, from its file or the content of one."""
    content, where = _opened(source, "release")
    if format_of(content, where, "release") == "truthful/release/1":
        return parse_record(ReleaseOfHalves, content, where, "release")
    return parse_record(Release, content, where, "release")


def read_receipt(path: Path, player: str | None = None) -> AnyReceipt:
    """A receipt from one player's JSON file, or from a Parquet file of many."""
    if path.suffix != ".parquet":
        content, where = _opened(path, "receipt")
        if format_of(content, where, "receipt") == "truthful/receipt/1":
            return parse_record(ReceiptOfHalves, content, where, "receipt")
        return parse_record(Receipt, content, where, "receipt")
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


def _opened(source: str | Path | bytes, noun: str) -> tuple[bytes, str]:
    if isinstance(source, bytes):
        return source, f"the {noun}"
    try:
        return Path(source).read_bytes(), str(source)
    except FileNotFoundError:
        raise InputError(f"There is no {noun} at {str(source)!r}.") from None


def find_receipt(receipts: Any, player: str | int) -> AnyReceipt:
    """One player's receipt out of a table of receipts."""
    import pyarrow.compute

    names = receipts.column_names
    last = next((known for known in (LAST_OF_HALVES, LAST_ASKED) if _ends_with(names, known)), LAST)
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
    kind = ReceiptOfHalves if last is LAST_OF_HALVES else Receipt
    try:
        return kind(
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
