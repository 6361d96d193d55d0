"""The loops over players that a settlement runs millions of times, compiled.

Features come as columns, an array of d rows with one entry for each player: a loop over players then reads memory in
order and uses the processor's vectors. Numbers per player are rounded as written, so that nobody's result depends on
who stands beside her. Only sums of grid integers may be reordered and fused: they are exact whatever the order.

Compiled code is kept on disk as long as its own file is the same, whatever happens to others. So a compiled function
calls none of another file, and the constants it uses stand here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import intrinsic

from truthful.check import Floats

Columns = Floats  # (d, n)
Groups = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]

GRID = 2**20  # steps of the grid in a unit
PRODUCT = GRID**2  # a product of two grid integers counts units of 2^-40
LARGEST = float(np.finfo(np.float64).max)
TILE = 1_008  # rows: with ten features 90 kB; a power of two would put all features into the same few cache lines
BLOCK = 512  # players of whom a few numbers each fit the nearest cache


class Codes(NamedTuple):
    """What loops know of a study: its columns, features first, then the response; and what is the same for all.

    A column has so many levels, or 0 if it holds numbers; these are coded as (2v − low − high)·factor, maps having the
    three, and must lie within `ranges`. `weights` is the centre of the prior, `unit` what a level is coded as and
    `limit` the largest response on the grid.
    """

    levels: Integers
    maps: Floats
    ranges: Floats
    weights: Floats
    unit: float
    intercept: bool
    limit: float


class Peers(NamedTuple):
    """What loops know of the halves: estimates, spreads and scales of their noise, and how far predictions reach.

    The noise of half j is spreads[j] @ v with v of scales[j, 0], and so along any x of a scale between scales[j, 1] and
    scales[j, 2]; spreads are left out if those are the same for each half.
    """

    thetas: Floats
    spreads: Floats
    scales: Floats
    reach: float


F = TypeVar("F", bound=Callable[..., Any])
each: Callable[[F], F] = numba.njit(cache=True, nogil=True, error_model="numpy")
exact: Callable[[F], F] = numba.njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"}
)


@each
def within(values: Floats, low: float, high: float) -> bool:
    """Whether all values lie in [low, high]; NaN does not."""
    outside = 0
    for i in range(len(values)):
        outside += not ((values[i] >= low) & (values[i] <= high))
    return outside == 0


@each
def in_unit_ball(columns: Columns) -> bool:
    """Whether Σx² ≤ 1 for every player; NaN is not."""
    squares = np.zeros(columns.shape[1])
    for a in range(len(columns)):
        for i in range(len(squares)):
            squares[i] += columns[a, i] * columns[a, i]
    return within(squares, 0.0, 1.0)


@each
def coded(values: Floats, low: float, high: float, factor: float, out: Floats) -> None:
    """(2v − low − high)·factor: a number's place in its range."""
    for i in range(len(values)):
        out[i] = (2.0 * values[i] - low - high) * factor


@each
def truncated(values: Floats, grid: float, limit: float, out: Floats) -> None:
    """Whole multiples of 1/grid, toward zero, and within ±limit."""
    for i in range(len(values)):
        steps = min(np.floor(abs(values[i] * grid)), limit)
        out[i] = math.copysign(steps, values[i])


@each
def truncated_columns(columns: Columns, grid: float, out: Columns, squares: Floats) -> None:
    """Whole multiples of 1/grid, toward zero, and Σk² of every player: an exact sum, if it is at most 2⁵³."""
    squares[:] = 0.0
    for a in range(len(columns)):
        for i in range(len(squares)):
            k = math.copysign(np.floor(abs(columns[a, i] * grid)), columns[a, i])
            out[a, i] = k
            squares[i] += k * k


@each
def lengths(columns: Columns, out: Floats) -> None:
    """‖x‖ of every player."""
    out[:] = 0.0
    for a in range(len(columns)):
        for i in range(len(out)):
            out[i] += columns[a, i] * columns[a, i]
    for i in range(len(out)):
        out[i] = math.sqrt(out[i])


@each
def along(columns: Columns, direction: Floats, out: Floats) -> None:
    """x·direction of every player, summed in the order of the features."""
    out[:] = 0.0
    for a in range(len(columns)):
        weight = direction[a]
        for i in range(len(out)):
            out[i] += columns[a, i] * weight


@each
def stretched(columns: Columns, spread: Floats, out: Floats) -> None:
    """‖xᵀ spread‖ of every player."""
    part = np.empty(len(out))
    out[:] = 0.0
    for b in range(spread.shape[1]):
        along(columns, spread[:, b].copy(), part)
        for i in range(len(out)):
            out[i] += part[i] * part[i]
    for i in range(len(out)):
        out[i] = math.sqrt(out[i])


@each
def peer_predictions(
    columns: Columns, unit: float, groups: Groups, peers: Peers, r: Floats, p: Floats, noise: Floats
) -> None:
    """What the other half says of every player: ‖x‖, x·θ̂ within ±reach·‖x‖, and the scale of its noise along x.

    x is the columns times the unit, a power of two; the half of a player is thetas[1 − group].
    """
    squares, first, second = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    most_0, most_1 = peers.scales[0, 2], peers.scales[1, 2]
    for start in range(0, len(r), BLOCK):
        rows = min(BLOCK, len(r) - start)
        group = groups[start : start + rows]
        squares[:], first[:], second[:] = 0.0, 0.0, 0.0
        for a in range(len(columns)):
            theta_0, theta_1, x = peers.thetas[0, a], peers.thetas[1, a], columns[a, start : start + rows]
            for i in range(rows):
                squares[i] += x[i] * x[i]
                first[i] += x[i] * theta_0
                second[i] += x[i] * theta_1
        for i in range(rows):
            squares[i] = math.sqrt(squares[i])
            length = squares[i] * unit
            limit = peers.reach * length
            predicted = (second[i] if group[i] == 0 else first[i]) * unit
            r[start + i] = length
            p[start + i] = min(max(predicted, -limit), limit)
            noise[start + i] = most_1 if group[i] == 0 else most_0
        if len(peers.spreads):
            block, part = columns[:, start : start + rows].copy(), noise[start : start + rows]
            _noise(block, group, peers, squares, first[:rows], second[:rows], part)


@each
def _noise(
    columns: Columns, groups: Groups, peers: Peers, r: Floats, first: Floats, second: Floats, noise: Floats
) -> None:
    """The scale of noise along x, of the half that each player is not in."""
    stretched(columns, peers.spreads[0], first)
    stretched(columns, peers.spreads[1], second)
    for i in range(len(noise)):
        peer = 1 - groups[i]
        scale, least, most = peers.scales[peer, 0], peers.scales[peer, 1], peers.scales[peer, 2]
        along = scale * (second[i] if peer == 1 else first[i]) / (r[i] if r[i] > 0 else 1.0)
        noise[i] = min(max(along, least), most)


@each
def paid(
    p: Floats,
    q: Floats,
    linear: float,
    a: float,
    b: float,
    low: float,
    high: float,
    steps: float,
    out: Floats,
) -> None:
    """a + b(2pq − q² − linear·p), between low and high, rounded down to whole steps."""
    for i in range(len(p)):
        exact = a + b * (2.0 * p[i] * q[i] - q[i] * q[i] - linear * p[i])
        out[i] = np.floor(min(max(exact, low), high) * steps) / steps


@each
def whole(columns: Columns, limit: float) -> bool:
    """Whether all numbers are whole and within ±limit."""
    odd = 0
    for a in range(len(columns)):
        for i in range(columns.shape[1]):
            k = columns[a, i]
            odd += not ((k == np.floor(k)) & (abs(k) <= limit))
    return odd == 0


@exact
def add_products(columns: Columns, responses: Floats, groups: Groups, panel: int, sums: Integers) -> None:
    """Adds Σ k_x k_xᵀ, Σ k_x k_y and Σ k_y² of each group to sums[group], a matrix of d + 1 rows (upper triangle).

    A group's players are gathered into panels of so many rows, within which float64 sums are exact; panels are added as
    integers.
    """
    d, n = columns.shape
    held, players = np.empty((d + 1, panel)), np.empty(n + 1, np.uint32)
    for group in range(2):
        count = 0
        for i in range(n):  # without a branch: who is not of the group is overwritten
            players[count] = i
            count += groups[i] == group
        for start in range(0, count, panel):
            rows = min(panel, count - start)
            for a in range(d):
                for i in range(rows):
                    held[a, i] = columns[a, players[start + i]]
            square = np.int64(0)
            for i in range(rows):
                k = responses[players[start + i]]
                held[d, i] = k
                square += np.int64(k) * np.int64(k)
            _add_panel(held, rows, sums[group])
            sums[group, d, d] += square


@exact
def _add_panel(held: Floats, rows: int, sums: Integers) -> None:
    """The products of one panel: two columns by two at a time, so that each number is read half as often."""
    d = len(held) - 1
    for a in range(0, d, 2):
        second = min(a + 1, d - 1)
        for b in range(a, d + 1, 2):
            last = min(b + 1, d)
            s00 = s01 = s10 = s11 = 0.0
            for i in range(rows):
                s00 += held[a, i] * held[b, i]
                s01 += held[a, i] * held[last, i]
                s10 += held[second, i] * held[b, i]
                s11 += held[second, i] * held[last, i]
            sums[a, b] += np.int64(s00)
            if last > b:
                sums[a, last] += np.int64(s01)
            if second > a:
                sums[second, b] += np.int64(s10)
                if last > b:
                    sums[second, last] += np.int64(s11)


@each
def total_steps(payments: Floats, steps: float) -> tuple[np.int64, np.int64]:
    """The total in whole steps, as (high, low) with total = high·2³² + low."""
    high = low = np.int64(0)
    for i in range(len(payments)):
        paid = np.int64(np.rint(payments[i] * steps))
        high += paid >> 32
        low += paid & 0xFFFFFFFF
    return high, low


@each
def parted(hashes: Hashes, bits: int, out: Hashes) -> Integers:
    """The hashes ordered by their top bits alone; gives where each part begins, and where the last one ends."""
    shift, places = np.uint64(64 - bits), np.zeros(2**bits + 1, np.int64)
    for i in range(len(hashes)):
        places[np.int64(hashes[i] >> shift) + 1] += 1
    starts = np.cumsum(places)
    places[:] = starts
    for i in range(len(hashes)):
        part = np.int64(hashes[i] >> shift)
        out[places[part]] = hashes[i]
        places[part] += 1
    return starts


@intrinsic
def _floats_at(typing_context, address):  # type: ignore[no-untyped-def]
    return types.CPointer(types.float64)(types.int64), _cast


@intrinsic
def _integers_at(typing_context, address):  # type: ignore[no-untyped-def]
    return types.CPointer(types.int64)(types.int64), _cast


def _cast(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))


@each
def _put(x: Floats, weight: float, k: Floats, squares: Floats, centre: Floats) -> None:
    """One feature of a tile on the grid."""
    for i in range(len(x)):
        k[i] = np.trunc(x[i] * GRID)
        squares[i] += k[i] * k[i]
    if weight != 0:
        for i in range(len(x)):
            centre[i] += x[i] * weight


@each
def _tile(addresses: Integers, codes: Codes, start: int, k: Floats, work: Floats) -> bool:
    """Rows from `start` on, as many as k has, on the grid: features, then the response.

    False if a value lies outside of its range, is no number or no level, or if ‖x‖ > 1.
    """
    rows, row, outside = k.shape[1], 0, 0
    x, squares, centre = work[0, :rows], work[1, :rows], work[2, :rows]
    squares[:], centre[:] = 0.0, 0.0
    if codes.intercept:
        x[:] = codes.unit
        _put(x, codes.weights[0], k[0], squares, centre)
        row = 1
    for column in range(len(addresses)):
        least, most = codes.ranges[column, 0], codes.ranges[column, 1]
        if codes.levels[column] == 0:
            low, high, factor = codes.maps[column, 0], codes.maps[column, 1], codes.maps[column, 2]
            values = numba.carray(_floats_at(addresses[column]), start + rows)[start:]
            for i in range(rows):
                x[i] = (2.0 * values[i] - low - high) * factor
                outside += not ((values[i] >= least) & (values[i] <= most))
            if column < len(addresses) - 1:
                _put(x, codes.weights[row], k[row], squares, centre)
                row += 1
        else:
            places = numba.carray(_integers_at(addresses[column]), start + rows)[start:]
            last = codes.levels[column] - 1
            for i in range(rows):
                outside += not ((places[i] >= 0) & (places[i] <= last))
            for level in range(last):
                for i in range(rows):
                    x[i] = codes.unit if places[i] == level else (-codes.unit if places[i] == last else 0.0)
                _put(x, codes.weights[row], k[row], squares, centre)
                row += 1
    for i in range(rows):
        y = np.trunc((x[i] - centre[i]) * GRID)
        k[row, i] = min(max(y, -codes.limit), codes.limit)
        outside += squares[i] > PRODUCT
    return outside == 0


@each
def add_tiles(addresses: Integers, codes: Codes, groups: Groups, panel: int, sums: Integers) -> bool:
    """Adds what `add_products` does of the records whose columns are at these addresses; False as `_tile` has it."""
    d, n = len(codes.weights), len(groups)
    memory, work = np.empty((d + 1) * TILE), np.empty((3, TILE))
    for start in range(0, n, TILE):
        rows = min(TILE, n - start)
        k = memory[: (d + 1) * rows].reshape((d + 1, rows))
        if not _tile(addresses, codes, start, k, work):
            return False
        add_products(k[:d], k[d], groups[start : start + rows], panel, sums)
    return True


@each
def predict_tiles(
    addresses: Integers,
    codes: Codes,
    groups: Groups,
    peers: Peers,
    r: Floats,
    y: Floats,
    p: Floats,
    noise: Floats,
) -> bool:
    """What `peer_predictions` has of the records whose columns are at these addresses, and y; False likewise."""
    d, n = len(codes.weights), len(groups)
    memory, work = np.empty((d + 1) * TILE), np.empty((3, TILE))
    for start in range(0, n, TILE):
        rows = min(TILE, n - start)
        part = slice(start, start + rows)
        k = memory[: (d + 1) * rows].reshape((d + 1, rows))
        if not _tile(addresses, codes, start, k, work):
            return False
        peer_predictions(k[:d], 1 / GRID, groups[part], peers, r[part], p[part], noise[part])
        y[part] = k[d] / GRID
    return True
