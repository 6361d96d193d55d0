"""Rules for good records: each reads its column of a batch and finds the faults in it.

Whole columns are converted by Arrow; single values are read only when that fails. The meaning of a value never depends
on its neighbours: both ways read it alike. Arrow's `array`, `scalar` and `to_numpy` load pandas, wherever it is
installed, which takes longer than all the rest of a small file. Good columns avoid them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from truthful import check
from truthful.check import Floats
from truthful.errors import InputError, Option
from truthful.formatting import plural, shortest
from truthful.intake.sources import Place
from truthful.study import Study
from truthful.study.declaration import PLAYER, PREDICTION
from truthful.study.features import AsGiven, Column, Levels

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]
Player = str | int | None

TEXT_SHOWN = 40  # characters

# Text that is read as a number, but for spaces around it. Python's float() accepts more, such as 1_000.
NUMBER = r"(?i)^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf|infinity)$"

#: Words for a missing value, in lower case: R's NA, Stata's point, Excel's #N/A.
MISSING_WORDS = ("", "na", "nan", "n/a", "#n/a", ".")
LONGEST_WORD = 6  # the longest of them, with a space on either side


def numbers(column: Any) -> Floats:
    """The values as float64: NaN where there is no number, infinite where it is too large."""
    if not pa.types.is_string(column.type):
        return _floats(column.cast(pa.float64(), safe=False))
    try:
        return _floats(column.cast(pa.float64()))
    except pa.ArrowInvalid:
        trimmed = pc.utf8_trim_whitespace(column)
        readable = pc.match_substring_regex(trimmed, NUMBER)
        return _floats(pc.if_else(readable, trimmed, pa.scalar(None, pa.string())).cast(pa.float64()))


def _floats(column: Any) -> Floats:
    values: Floats = _numpy(column.fill_null(np.nan) if column.null_count else column)
    return values


def _numpy(column: Any) -> Any:
    """Arrow's numbers, not copied; nulls are arbitrary."""
    numbers = [None, column.buffers()[1]]
    return np.from_dlpack(pa.Array.from_buffers(column.type, len(column), numbers, offset=column.offset))


def arrow_numbers(values: Any) -> Any:
    """NumPy's numbers as an Arrow array, not copied."""
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def arrow_text(values: tuple[str, ...]) -> Any:
    """Texts as an Arrow array."""
    parts = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, parts)], dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(parts), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(parts))]
    )


def missing_number(column: Any) -> Mask:
    """Where a number is missing: null, NaN, or a word for missing."""
    if pa.types.is_string(column.type):
        blank = _says_nothing(column)
    elif pa.types.is_floating(column.type):
        blank = pc.is_nan(column)
    else:
        blank = pa.scalar(False)
    return _mask(pc.or_kleene(pc.is_null(column), blank))


def _says_nothing(text: Any) -> Any:
    return pc.is_in(pc.utf8_lower(pc.utf8_trim_whitespace(text)), value_set=arrow_text(MISSING_WORDS))


def level_text(column: Any) -> Any:
    """Levels as text: whole numbers without a decimal point, so that 1.0 is the level "1"."""
    if pa.types.is_string(column.type):
        return column
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    return column.cast(pa.string())


def level_places(text: Any, levels: tuple[str, ...]) -> Places:
    """The place of each value in the list of levels, -1 where it is not one of them."""
    places = pc.index_in(text, value_set=arrow_text(levels))
    found: Places = _numpy(places).astype(np.int64)
    if places.null_count:
        found[_mask(pc.is_null(places))] = -1
    return found


def missing_text(column: Any) -> Mask:
    """Where a level or a player id is missing: null, only spaces, or a word for missing."""
    if not pa.types.is_string(column.type):
        return _mask(pc.is_null(column)) if column.null_count else np.zeros(len(column), dtype=np.bool_)
    _, ends, data = column.buffers()
    starts = np.frombuffer(ends, dtype=np.int32, count=len(column) + 1, offset=4 * column.offset)
    lengths = np.diff(starts)
    missing: Mask = (lengths == 0) | _mask(pc.utf8_is_space(column)) | _mask(pc.is_null(column))
    # Few texts are as short as these words and begin like one: only these are checked.
    short = np.flatnonzero((lengths > 0) & (lengths <= LONGEST_WORD))
    if len(short):
        short = short[np.isin(np.frombuffer(data, dtype=np.uint8)[starts[short]], list(b" \tNn#."))]
        missing[short] |= _mask(_says_nothing(column.take(arrow_numbers(short))))
    return missing


def _mask(column: Any) -> Mask:
    mask: Mask = _numpy(column.cast(pa.uint8())).view(np.bool_)
    return mask


def player_ids(column: Any) -> Any:
    """The ids as text, or as 64-bit whole numbers; null where a float column has NaN.

    A data frame with one missing number holds the others as floats, so whole floats are read as integers.
    """
    if pa.types.is_string(column.type) or pa.types.is_uint64(column.type):
        return column
    if pa.types.is_null(column.type):
        return column.cast(pa.string())
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise InputError(
                f"Player ids must be text or whole numbers: {error}. Write them as text."
            ) from None
    raise InputError(f"Player ids are of type {column.type}; they must be text or whole numbers.")


@dataclass(frozen=True, eq=False)
class Repeats:
    """Records whose player had one already: their rows, ascending, and the row of her first record."""

    rows: Rows
    first_rows: Rows

    def __len__(self) -> int:
        return len(self.rows)


NO_REPEATS = Repeats(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


class Bad(StrEnum):
    """Kinds of bad values, in the order in which advice is given."""

    NO_PLAYER = "without a player id"
    DUPLICATE = "duplicate"
    MISSING = "missing"
    NOT_A_NUMBER = "not a number"
    OUT_OF_RANGE = "out of range"
    OUT_OF_BALL = "out of the unit ball"
    UNKNOWN_LEVEL = "unknown level"
    NO_ANSWER = "not an answer"


ADVICE = {
    Bad.NO_PLAYER: "Give every record the id of its player.",
    Bad.DUPLICATE: "Keep one record for each player.",
    Bad.MISSING: "Fill in the value or leave the record out.",
    Bad.NOT_A_NUMBER: "Write a plain number, such as 12.5.",
    Bad.OUT_OF_RANGE: "Correct the record or widen the range in {study} (the range is public).",
    Bad.OUT_OF_BALL: "Correct the record or divide all features by one public number.",
    Bad.UNKNOWN_LEVEL: "Correct the record or add the level in {study} (the levels are public).",
    Bad.NO_ANSWER: "Correct the record, or leave it out if there is no answer.",
}


@dataclass(frozen=True, eq=False)
class Fault:
    """One kind of fault in one column of a batch: its records, and how to describe each."""

    kind: Bad
    column: str
    mask: Mask
    tell: Callable[[int, Player], str]  # the sentence, by the record's place in the batch and its player


@dataclass(frozen=True)
class BadRecord:
    """A bad value. `row` is counted as in the source; `column` is empty where the whole record is at fault."""

    row: int
    player: Player
    column: str
    kind: Bad
    sentence: str


class BadRecords:
    """Counts all bad values and keeps the first ones, in the order of the source.

    `clipped` counts values that were moved into their range, and so are no longer bad.
    """

    def __init__(self, limit: int) -> None:
        self._limit = check.integer("limit", limit)
        self.first: list[BadRecord] = []
        self.counts: Counter[Bad] = Counter()
        self.all_records = 0
        self.bad_records = 0
        self.clipped = 0

    def note(self, faults: Sequence[Fault], ids: Any, first_row: int, named: bool = True) -> Mask:
        """Add the faults of one batch; return which of its records are bad. `named`: the ids are people's own."""
        bad = np.zeros(len(ids), dtype=np.bool_)
        for fault in faults:
            bad |= fault.mask
            self.counts[fault.kind] += int(fault.mask.sum())
        self.all_records += len(ids)
        self.bad_records += int(bad.sum())
        room = self._limit - len(self.first)
        if room and faults:
            # Sorted by record; faults of one record in the order given.
            places = [(int(i), fault) for fault in faults for i in np.flatnonzero(fault.mask)[:room]]
            places.sort(key=lambda place: place[0])
            self.first += [_bad_record(fault, i, ids, first_row, named) for i, fault in places[:room]]
        return bad

    def extend(self, later: BadRecords) -> None:
        """Add the findings about the records that follow."""
        self.first += later.first[: self._limit - len(self.first)]
        self.counts += later.counts
        self.all_records += later.all_records
        self.bad_records += later.bad_records
        self.clipped += later.clipped


class BadReports(InputError):
    """Some records are bad: the first ones, counts by kind, and what to do.

    `place` is their source, and `study` the name of the file that declares ranges.
    """

    def __init__(self, place: Place, study: str, found: BadRecords) -> None:
        self.records = tuple(found.first)
        self.counts = Counter({kind: found.counts[kind] for kind in Bad if found.counts[kind]})
        self.bad_records = found.bad_records
        self.all_records = found.all_records
        advice = {kind: ADVICE[kind].format(study=study) for kind in self.counts}
        if self.counts.total() == 1:
            (bad,) = self.records
            cell = place.cell(bad.row, bad.column)
            super().__init__(f"In {place.where}, {cell}{place.counting}: {bad.sentence} {advice[bad.kind]}")
            return
        values, records = plural(self.counts.total(), "bad value"), plural(self.all_records, "record")
        left = self.counts - Counter(record.kind for record in self.records)
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in left.items())
        lines = [
            f"In {place.where} there are {values}, in {self.bad_records:,} of {records}{place.counting}:",
            *(f"  {place.cell(record.row, record.column)}: {record.sentence}" for record in self.records),
            *([f"  and {left.total():,} more: {kinds}"] if left else []),
            *(f"{kind.capitalize()}: {what}" for kind, what in advice.items()),
            "Or choose ",
        ]
        rest = " to move numbers into their range; where records are protected, 'drop' leaves out bad ones."
        super().__init__("\n".join(lines), Option("on_bad", "clip"), rest)


UNNAMED = ""  # the player of a record whose id is not read


def _bad_record(fault: Fault, index: int, ids: Any, first_row: int, named: bool) -> BadRecord:
    player = ids[index].as_py() if named else UNNAMED
    player = None if named and isinstance(player, str) and not player.strip() else player
    return BadRecord(first_row + index, player, fault.column, fault.kind, fault.tell(index, player))


def owner(player: Player) -> str:
    """Words for the owner of a value."""
    if player == UNNAMED:
        return "this person"
    return "a player without an id" if player is None else f"player {quote(player)}"


def quote(value: object) -> str:
    """A value as given, shortened; control characters are escaped."""
    if isinstance(value, str) and len(value) > TEXT_SHOWN:
        return f"{value[:TEXT_SHOWN]!r}…"
    return repr(value)


LARGEST = float(np.finfo(np.float64).max)
NORM_SLACK = 1e-9  # rounding of the norm of a vector on the unit sphere
LEVELS_SHOWN = 8

Values = dict[str, Any]  # one array for each column: numbers, or places of levels


@dataclass(frozen=True)
class ColumnRule(ABC):
    """A rule for the content of one column. `role` is Feature, Response, or Column for predictions."""

    role: str
    name: str

    @property
    def of_numbers(self) -> bool:
        """Whether the column holds numbers, which some files write with a decimal comma."""
        return True

    def values(self, column: Any) -> Any:
        """The values, NaN where missing."""
        return numbers(column)

    @abstractmethod
    def faults(self, column: Any, values: Any) -> list[Fault]:
        """The faults of the column's values."""

    def clip(self, values: Any) -> Any:
        """The values clipped to the range; unchanged where there is nothing between two answers or levels."""
        return values

    def raw(self, values: Any) -> Any:
        """The values as an Arrow column, not copied."""
        return arrow_numbers(values)

    def fault(self, kind: Bad, mask: Mask, describe: Callable[[int], str] = lambda index: "missing") -> Fault:
        """A fault of the values at `mask`, each worded by `describe`."""

        def tell(index: int, player: Player) -> str:
            return f"{self.role} {self.name!r} of {owner(player)} is {describe(index)}."

        return Fault(kind, self.name, mask, tell)


@dataclass(frozen=True)
class NumberRule(ColumnRule):
    """A column of numbers between two declared ends."""

    low: float = -LARGEST
    high: float = LARGEST

    def faults(self, column: Any, values: Floats) -> list[Fault]:
        # Neither NaN nor infinity counts as inside.
        if values.min(initial=self.low) >= self.low and values.max(initial=self.high) <= self.high:
            return []
        inside = (values >= self.low) & (values <= self.high)
        missing, finite = missing_number(column), np.isfinite(values)

        def unreadable(index: int) -> str:
            number = "finite number" if np.isinf(values[index]) else "number"
            return f"{quote(column[index].as_py())}, which is not a {number}"

        def outside(index: int) -> str:
            low, high = shortest(self.low), shortest(self.high)
            return f"{shortest(values[index])}, outside its declared range [{low}, {high}]"

        return [
            self.fault(Bad.MISSING, missing),
            self.fault(Bad.NOT_A_NUMBER, ~finite & ~missing, unreadable),
            self.fault(Bad.OUT_OF_RANGE, finite & ~inside, outside),
        ]

    def clip(self, values: Floats) -> Floats:
        return np.clip(values, self.low, self.high)


@dataclass(frozen=True)
class LevelRule(ColumnRule):
    """A column with one of the declared levels."""

    levels: tuple[str, ...]

    @property
    def of_numbers(self) -> bool:
        return False

    def values(self, column: Any) -> Places:
        """The place of each value among the levels, -1 for an unknown one."""
        return level_places(level_text(column), self.levels)

    def faults(self, column: Any, places: Places) -> list[Fault]:
        known = places >= 0
        if known.all():
            return []
        text = level_text(column)
        missing = missing_text(text) & ~known
        names, count = ", ".join(self.levels[:LEVELS_SHOWN]), len(self.levels)
        declared = f"levels {names}" if count <= LEVELS_SHOWN else f"{count} levels {names}, …"
        return [
            self.fault(Bad.MISSING, missing),
            self.fault(
                Bad.UNKNOWN_LEVEL,
                ~known & ~missing,
                lambda index: f"{quote(text[index].as_py())}, not one of its {declared}",
            ),
        ]

    def raw(self, places: Places) -> Any:
        """The levels as an Arrow column of text."""
        return arrow_text(self.levels).take(arrow_numbers(places))


#: Words for yes and no, in lower case.
YES, NO = ("yes", "true", "1", "1.0"), ("no", "false", "0", "0.0")


@dataclass(frozen=True)
class AnswerRule(ColumnRule):
    """The response, where it is yes or no (1 and 0), or a rating from 1 to the number of levels."""

    kind: str
    levels: int

    @property
    def of_numbers(self) -> bool:
        return self.kind != "yes-no"

    def values(self, column: Any) -> Floats:
        """The values, NaN where there is no answer."""
        if self.kind == "yes-no" and pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        if self.kind != "yes-no" or not pa.types.is_string(column.type):
            return numbers(column)
        text = pc.utf8_lower(pc.utf8_trim_whitespace(column))
        places = level_places(text, (*YES, *NO))
        return np.where(places < 0, np.nan, (places < len(YES)).astype(np.float64))

    def faults(self, column: Any, values: Floats) -> list[Fault]:
        yes_no = self.kind == "yes-no"
        allowed = np.isin(values, [0.0, 1.0] if yes_no else np.arange(1.0, self.levels + 1))
        if allowed.all():
            return []
        missing = missing_text(column) if pa.types.is_string(column.type) else missing_number(column)
        wanted = "yes or no" if yes_no else f"a whole number from 1 to {self.levels}"
        return [
            self.fault(Bad.MISSING, missing & ~allowed),
            self.fault(
                Bad.NO_ANSWER,
                ~allowed & ~missing,
                lambda index: f"{quote(column[index].as_py())}; it must be {wanted}",
            ),
        ]


@dataclass(frozen=True)
class BallRule:
    """Features used directly as x, together in the unit ball: ‖x‖ ≤ 1."""

    names: tuple[str, ...]

    def faults(self, values: Values) -> list[Fault]:
        """Records outside the ball. A norm is NaN, and not reported, where a feature is missing or not a number."""
        with np.errstate(over="ignore"):
            squares = sum(np.square(values[name]) for name in self.names)
        if np.max(squares, initial=0.0) <= 1:
            return []
        norms = self._norms(values)
        outside = norms > 1 + NORM_SLACK

        def tell(index: int, player: Player) -> str:
            # Enough digits to differ from 1.
            return f"The features of {owner(player)} have norm {norms[index]:.10g}, above 1."

        return [Fault(Bad.OUT_OF_BALL, "", outside, tell)] if outside.any() else []

    def clip(self, values: Values) -> Values:
        """Divide vectors outside the ball by their norm."""
        norms = self._norms(values)
        lengths = np.where(norms > 1 + NORM_SLACK, norms, 1.0)
        return values | {name: values[name] / lengths for name in self.names}

    def _norms(self, values: Values) -> Floats:
        """‖x‖, column by column so that it does not depend on the batch, scaled so that squares stay finite."""
        columns = [np.abs(values[name]) for name in self.names]
        with np.errstate(all="ignore"):
            largest = np.maximum(np.maximum.reduce(columns), np.finfo(np.float64).tiny)
            norms: Floats = largest * np.sqrt(sum((column / largest) ** 2 for column in columns))
        return norms


def rules_of(study: Study) -> tuple[ColumnRule, ...]:
    """One rule for each column but the player's, in the order of the study: features, the response, the prediction."""
    response = study.response
    features = (_feature_rule(feature) for feature in study.declared.encoding.features)
    answer: ColumnRule = NumberRule("Response", response.name, response.low, response.high)
    if study.shares is not None:
        answer = AnswerRule("Response", response.name, study.kind, study.shares.levels)
    asked = () if study.levels is None else (NumberRule("Column", PREDICTION, *study.prediction_range),)
    return (*features, answer, *asked)


def ball_rules_of(study: Study) -> tuple[BallRule, ...]:
    """The rule on whole vectors, if features are used directly as x."""
    names = tuple(f.name for f in study.declared.encoding.features if isinstance(f, AsGiven))
    return (BallRule(names),) if names else ()


def _feature_rule(feature: Column) -> ColumnRule:
    match feature:
        case Levels():
            return LevelRule("Feature", feature.name, feature.levels)
        case AsGiven():
            return NumberRule("Feature", feature.name)
        case _:
            return NumberRule("Feature", feature.name, feature.low, feature.high)


def player_faults(missing: Mask, first_row: int, repeats: Repeats) -> list[Fault]:
    """Records without a player id, and records of a player who already had one."""
    start, end = np.searchsorted(repeats.rows, [first_row, first_row + len(missing)])
    rows, first_rows = repeats.rows[start:end], repeats.first_rows[start:end]
    repeated = np.zeros(len(missing), dtype=np.bool_)
    repeated[rows - first_row] = True

    def tell_repeated(index: int, player: Player) -> str:
        first = first_rows[np.searchsorted(rows, first_row + index)]
        return f"Player {quote(player)} appears again; the first record is in row {first}."

    faults = [
        Fault(Bad.NO_PLAYER, PLAYER, missing, lambda index, player: "The player id is missing."),
        Fault(Bad.DUPLICATE, PLAYER, repeated, tell_repeated),
    ]
    return [fault for fault in faults if fault.mask.any()]
