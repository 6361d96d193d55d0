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

import numpy as np
import numpy.typing as npt

from truthful.check import Floats
from truthful.compiled import compiled

Columns = Floats  # (d, n)
Groups = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]

GRID = 2**20  # steps of the grid in a unit
PRODUCT = GRID**2  # a product of two grid integers counts units of 2^-40
LARGEST = float(np.finfo(np.float64).max)
BLOCK = 512  # players of whom a few numbers each fit the nearest cache
PANEL = 504  # players who are dealt with at a time
THREE, FOUR = 3, 4  # columns that loops read at a time: matrices have zeros to make as many
TRANSFORM_UNIT = 2.0**-10


class Peers(NamedTuple):
    """What loops know of the halves: estimates, spreads and scales of their noise, and how far predictions reach.

    The noise of half j is spreads[j] @ v with v of scales[j, 0], and so along any x of a scale between scales[j, 1] and
    scales[j, 2]; spreads are left out if those are the same for each half.
    """

    thetas: Floats
    spreads: Floats
    scales: Floats
    reach: float


class Others(NamedTuple):
    """What loops know of one release: the estimate, and how anybody's own report is taken out of it again.

    Row a of `inverse` is column a of M⁻¹, row a of `transform` is row a of T in whole units (no rows: ζ = x); both have
    zeros to make fours. `kept` is what M without one player keeps of M, 0 where that is 1 − h. `sup`: instruments are
    cut in the sup norm.
    """

    theta: Floats
    inverse: Floats
    transform: Floats
    scale: float
    kept: float
    reach: float
    sup: bool = False


F = TypeVar("F", bound=Callable[..., Any])
each = compiled(error_model="numpy")
exact = compiled(error_model="numpy", fastmath={"reassoc", "contract", "nsz"})


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
def stretch(columns: Columns, spread: Floats, out: Floats) -> None:
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
    stretch(columns, peers.spreads[0], first)
    stretch(columns, peers.spreads[1], second)
    for i in range(len(noise)):
        peer = 1 - groups[i]
        scale, least, most = peers.scales[peer, 0], peers.scales[peer, 1], peers.scales[peer, 2]
        along = scale * (second[i] if peer == 1 else first[i]) / (r[i] if r[i] > 0 else 1.0)
        noise[i] = min(max(along, least), most)


@each
def round_payments(
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


@exact
def _add_panel(k: Columns, begin: int, end: int, sums: Integers) -> None:
    """Adds Σ k kᵀ of these players (upper triangle), exact but for squares of responses.

    Three columns by three at a time, so that each number is read a third as often: there are zeros to make threes.
    """
    for a in range(0, len(k), THREE):
        x0, x1, x2 = k[a, begin:end], k[a + 1, begin:end], k[a + 2, begin:end]
        for b in range(a, len(k), THREE):
            z0, z1, z2 = k[b, begin:end], k[b + 1, begin:end], k[b + 2, begin:end]
            s00 = s01 = s02 = s10 = s11 = s12 = s20 = s21 = s22 = 0.0
            for i in range(len(x0)):
                s00 += x0[i] * z0[i]
                s01 += x0[i] * z1[i]
                s02 += x0[i] * z2[i]
                s10 += x1[i] * z0[i]
                s11 += x1[i] * z1[i]
                s12 += x1[i] * z2[i]
                s20 += x2[i] * z0[i]
                s21 += x2[i] * z1[i]
                s22 += x2[i] * z2[i]
            sums[a, b] += np.int64(s00)
            sums[a, b + 1] += np.int64(s01)
            sums[a, b + 2] += np.int64(s02)
            sums[a + 1, b] += np.int64(s10)
            sums[a + 1, b + 1] += np.int64(s11)
            sums[a + 1, b + 2] += np.int64(s12)
            sums[a + 2, b] += np.int64(s20)
            sums[a + 2, b + 1] += np.int64(s21)
            sums[a + 2, b + 2] += np.int64(s22)


@each
def add_columns(k: Columns, panel: int, sums: Integers) -> None:
    """What `_add_panel` adds, of all players, in panels of so many within which float64 sums are exact."""
    for begin in range(0, k.shape[1], panel):
        _add_panel(k, begin, min(begin + panel, k.shape[1]), sums)


@each
def _weigh_columns(
    weights: Floats, others: Floats, k: Columns, last: int, begin: int, end: int, out: Floats, second: Floats
) -> None:
    """Σ_b weights[b]·k[b] and Σ_b others[b]·k[b] of these players, b in order up to `last`; there are zeros to make
    fours. The two results are apart from k and from each other."""
    for b in range(0, len(weights), FOUR):
        x0, x1 = k[b, begin:end], k[min(b + 1, last), begin:end]
        x2, x3 = k[min(b + 2, last), begin:end], k[min(b + 3, last), begin:end]
        w0, w1, w2, w3 = weights[b], weights[b + 1], weights[b + 2], weights[b + 3]
        v0, v1, v2, v3 = others[b], others[b + 1], others[b + 2], others[b + 3]
        if b == 0:
            for i in range(len(x0)):
                w = ((w0 * x0[i] + w1 * x1[i]) + w2 * x2[i]) + w3 * x3[i]
                v = ((v0 * x0[i] + v1 * x1[i]) + v2 * x2[i]) + v3 * x3[i]
                out[i], second[i] = w, v
        else:
            for i in range(len(x0)):
                w = (((out[i] + w0 * x0[i]) + w1 * x1[i]) + w2 * x2[i]) + w3 * x3[i]
                v = (((second[i] + v0 * x0[i]) + v1 * x1[i]) + v2 * x2[i]) + v3 * x3[i]
                out[i], second[i] = w, v


@each
def _put_in_ball(k: Columns, begin: int, end: int, transform: Floats, work: Floats) -> None:
    """V truncated where ‖V‖ ≤ 1 on the grid; elsewhere it is divided by its largest entry and then by its norm."""
    d, rows = len(transform), end - begin
    squares, largest, longer = work[0, :rows], work[1, :rows], 0
    squares[:], largest[:] = 0.0, 0.0
    for a in range(0, d, 2):
        after = min(a + 1, d - 1)
        v, w = k[d + a, begin:end], k[d + after, begin:end] if after > a else work[2, :rows]
        _weigh_columns(transform[a], transform[after], k, d - 1, begin, end, v, w)
        for i in range(rows):
            steps, more = np.trunc(v[i] * TRANSFORM_UNIT), np.trunc(w[i] * TRANSFORM_UNIT)
            squares[i] += steps * steps + (more * more if after > a else 0.0)
            largest[i] = max(largest[i], max(abs(v[i]), abs(w[i])))
    for i in range(rows):
        longer += squares[i] > PRODUCT
    if longer == 0:
        for a in range(d):
            v = k[d + a, begin:end]
            for i in range(rows):
                v[i] = np.trunc(v[i] * TRANSFORM_UNIT)
        return
    lengths = work[2, :rows]
    lengths[:] = 0.0
    for a in range(d):
        v = k[d + a, begin:end]
        for i in range(rows):
            share = v[i] / largest[i]
            lengths[i] += share * share
            v[i] = share if squares[i] > PRODUCT else v[i] * TRANSFORM_UNIT
    for i in range(rows):
        lengths[i] = math.sqrt(lengths[i])
    for a in range(d):
        v = k[d + a, begin:end]
        for i in range(rows):
            v[i] = np.trunc(v[i] / lengths[i] * GRID if squares[i] > PRODUCT else v[i])


@each
def put_instruments(k: Columns, begin: int, end: int, transform: Floats, sup: bool, work: Floats) -> None:
    """k_ζ of these players into columns d to 2d of k, from k_x in the first d: to the bit what `grid_features` makes of
    V = T x, which v = T k_x counts in units of 2⁻³⁰, exactly; in the sup norm each entry is cut by itself."""
    if sup:
        _put_entries(k, begin, end, transform, work)
    else:
        _put_in_ball(k, begin, end, transform, work)


@each
def _put_entries(k: Columns, begin: int, end: int, transform: Floats, work: Floats) -> None:
    """Every entry of V on the grid, truncated, and within ±1."""
    d, rows = len(transform), end - begin
    for a in range(0, d, 2):
        after = min(a + 1, d - 1)
        v, w = k[d + a, begin:end], k[d + after, begin:end] if after > a else work[2, :rows]
        _weigh_columns(transform[a], transform[after], k, d - 1, begin, end, v, w)
    for a in range(d):
        v = k[d + a, begin:end]
        for i in range(rows):
            v[i] = min(max(np.trunc(v[i] * TRANSFORM_UNIT), -GRID), GRID)


@each
def put_all_instruments(k: Columns, transform: Floats, sup: bool) -> None:
    """k_ζ of all players of k."""
    work = np.empty((3, PANEL))
    for begin in range(0, k.shape[1], PANEL):
        put_instruments(k, begin, min(begin + PANEL, k.shape[1]), transform, sup, work)


@each
def without_each(
    k: Columns,
    begin: int,
    end: int,
    others: Others,
    work: Floats,
    r: Floats,
    y: Floats,
    h: Floats,
    p: Floats,
    noise: Floats,
    along: Floats,
) -> None:
    """What everybody but herself says of each of these players, whose columns are k_x, k_ζ unless it is k_x, and k_y.

    r = ‖x‖, y, h = w·ζ with w = M⁻ᵀx, p = (x·θ̂ − hy)/kept within ±reach·r, the scale s‖w‖/kept of the noise in it,
    and that divided by r. Sums run over the features in their order.
    """
    d, rows, unit = len(others.theta), end - begin, 1.0 / GRID
    squares, fitted, leverage = work[0, :rows], work[1, :rows], work[2, :rows]
    stretch, w, v = work[3, :rows], work[4, :rows], work[5, :rows]
    squares[:], fitted[:], leverage[:], stretch[:] = 0.0, 0.0, 0.0, 0.0
    first = len(others.transform)  # of the instruments
    for a in range(0, d, 2):
        after = min(a + 1, d - 1)
        _weigh_columns(others.inverse[a], others.inverse[after], k, d - 1, begin, end, w, v)
        x, z, theta = k[a, begin:end], k[first + a, begin:end], others.theta[a]
        if after > a:
            x1, z1, theta1 = k[after, begin:end], k[first + after, begin:end], others.theta[after]
            for i in range(rows):
                squares[i] = (squares[i] + x[i] * x[i]) + x1[i] * x1[i]
                fitted[i] = (fitted[i] + x[i] * theta) + x1[i] * theta1
            for i in range(rows):
                leverage[i] = (leverage[i] + w[i] * z[i]) + v[i] * z1[i]
                stretch[i] = (stretch[i] + w[i] * w[i]) + v[i] * v[i]
        else:
            for i in range(rows):
                squares[i] += x[i] * x[i]
                fitted[i] += x[i] * theta
                leverage[i] += w[i] * z[i]
                stretch[i] += w[i] * w[i]
    # Short loops: one with many arrays would not use the processor's vectors.
    reports, kept, fixed = k[first + d, begin:end], w, others.kept
    r, y, h = r[begin:end], y[begin:end], h[begin:end]
    p, noise, along = p[begin:end], noise[begin:end], along[begin:end]
    for i in range(rows):
        r[i] = math.sqrt(squares[i]) * unit
        y[i] = reports[i] * unit
    for i in range(rows):
        h[i] = leverage[i] * (unit * unit)
        kept[i] = fixed if fixed > 0 else 1.0 - h[i]
    for i in range(rows):
        fitted[i] = (fitted[i] * unit - h[i] * y[i]) / kept[i]
    for i in range(rows):
        limit = others.reach * r[i] if r[i] > 0 else 0.0
        p[i] = min(max(fitted[i], -limit), limit)
    for i in range(rows):
        noise[i] = others.scale * (math.sqrt(stretch[i]) * unit) / kept[i]
        along[i] = noise[i] / r[i] if r[i] > 0 else others.scale


@each
def paid_by_length(
    p: Floats, q: Floats, r: Floats, linear: float, a: float, b: float, clip: float, steps: float, out: Floats
) -> None:
    """base + b(2pq − q² − linear·p) within [0, base + b·gain(c‖x‖)], in whole steps; base = max(a, b·loss(c‖x‖))."""
    for i in range(len(p)):
        reach = clip * r[i]
        base = max(a, b * (linear * reach + 3.0 * reach * reach))
        most = base + b * (linear * reach + reach * reach)
        exact = base + b * (2.0 * p[i] * q[i] - q[i] * q[i] - linear * p[i])
        out[i] = np.floor(min(max(exact, 0.0), most) * steps) / steps


@each
def part_hashes(hashes: Hashes, bits: int, out: Hashes) -> Integers:
    """The hashes ordered by their top bits alone; gives where each part begins, and where the last one ends."""
    shift, places = np.uint64(64 - bits), np.zeros(2**bits + 1, np.int64)
    for i in range(len(hashes)):
        places[np.int64(hashes[i] >> shift) + 1] += 1
    starts = np.cumsum(places)
    places = starts.copy()
    for i in range(len(hashes)):
        part = np.int64(hashes[i] >> shift)
        out[places[part]] = hashes[i]
        places[part] += 1
    return starts


@each
def met_before(hashes: Hashes, slots: Hashes, out: Hashes) -> int:
    """Puts every hash that came before into `out`, and gives how many those are.

    `slots` are zeros, a power of two of them and more than there are hashes. Each hash has one of them from its low
    bits on: keyed hashes crowd nowhere.
    """
    mask, one, found, zeros = np.uint64(len(slots) - 1), np.uint64(1), 0, 0
    for i in range(len(hashes)):
        value = hashes[i]
        out[found] = value
        if value == 0:  # which is what an empty slot holds
            found += zeros > 0
            zeros += 1
            continue
        place = value & mask
        while (slots[place] != 0) & (slots[place] != value):
            place = (place + one) & mask
        found += slots[place] == value
        slots[place] = value
    return found


@each
def predict_columns(
    k: Columns,
    others: Others,
    work: Floats,
    r: Floats,
    y: Floats,
    h: Floats,
    p: Floats,
    noise: Floats,
    along: Floats,
) -> None:
    """`put_instruments` and `without_each`, of all players of k."""
    for begin in range(0, k.shape[1], PANEL):
        end = min(begin + PANEL, k.shape[1])
        if len(others.transform):
            put_instruments(k, begin, end, others.transform, others.sup, work)
        without_each(k, begin, end, others, work, r, y, h, p, noise, along)
