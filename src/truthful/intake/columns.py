"""One column of reports at a time: text or numbers in, float64 values, level places or player ids out.

Whole columns are converted by Arrow; single values are looked at only when that fails. What a value means
never depends on its neighbours: both ways read it alike.

Arrow's `array`, `scalar` and `to_numpy` load pandas, wherever it is installed, which takes longer than all the rest of
a small file. Good columns do without.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from truthful.check import Floats
from truthful.errors import InputError

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]

# What is read as a number in text, spaces around it aside. Python's float() takes more, such as 1_000.
NUMBER = r"(?i)^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf|infinity)$"


def numbers(column: Any) -> Floats:
    """The values as float64: NaN where there is none or no number, infinite where the number is too large."""
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
    """Arrow's numbers, not copied; anything at all where there is none."""
    numbers = [None, column.buffers()[1]]
    return np.from_dlpack(pa.Array.from_buffers(column.type, len(column), numbers, offset=column.offset))


def arrow_numbers(values: Any) -> Any:
    """NumPy's numbers as an Arrow array, not copied."""
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def arrow_text(values: tuple[str, ...]) -> Any:
    """A few texts as an Arrow array."""
    parts = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, parts)], dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(parts), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(parts))]
    )


def missing_number(column: Any) -> Mask:
    """Where a number is missing: null, NaN, nothing but spaces, or the text "nan"."""
    if pa.types.is_string(column.type):
        text = pc.utf8_lower(pc.utf8_trim_whitespace(column))
        blank = pc.is_in(text, value_set=arrow_text(("", "nan")))
    elif pa.types.is_floating(column.type):
        blank = pc.is_nan(column)
    else:
        blank = pa.scalar(False)
    return _mask(pc.or_kleene(pc.is_null(column), blank))


def level_text(column: Any) -> Any:
    """The levels as text: whole numbers without a decimal point, so that 1.0 is the level "1"."""
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
    """Where a level or a player id is missing: null, or nothing but spaces."""
    if not pa.types.is_string(column.type):
        return _mask(pc.is_null(column)) if column.null_count else np.zeros(len(column), dtype=np.bool_)
    empty: Mask = _numpy(pc.binary_length(column)) == 0
    return empty | _mask(pc.utf8_is_space(column)) | _mask(pc.is_null(column))


def _mask(column: Any) -> Mask:
    mask: Mask = _numpy(column.cast(pa.uint8())).view(np.bool_)
    return mask


def player_ids(column: Any) -> Any:
    """The ids as text, or as 64-bit whole numbers; null where a float column has NaN.

    A frame with one missing number holds the others as floats, so whole floats are read as integers.
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
