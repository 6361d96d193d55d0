"""The second attack, on what everybody else says of a player and on what everybody else sees of her.

Her peers' prediction may not contain her own report: reports are changed while the noise stays the same, and her
prediction must stay, draw by draw; it is made a second time in rational numbers, from the sums without her. And joint
privacy promises that all payments but her own are functions of the release and of others' records: given what was
released, nothing that others see may tell two neighbours apart.

At last what is *not* promised. Where answers are protected the matrix of features is published as it is: whoever knows
everybody else's features subtracts them and holds ζxᵀ, that is x, but for its sign.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product as pairs
from math import gcd, isqrt

import numpy as np

from truthful.asked_release import AskedRelease, AskedScored, largest_gain
from truthful.auditor.attack_surface import (
    Attacked,
    Believed,
    Finding,
    Listener,
    Product,
    answers_of,
    level,
    overhear,
    visible_parts,
)
from truthful.auditor.neighbours import exact_loss
from truthful.auditor.noise_tests import without_clipping
from truthful.check import Floats
from truthful.estimators.sensitivity import AddNoise
from truthful.lattice import Bits
from truthful.moments import (
    GRID,
    PRODUCT,
    PythonIntegers,
    Sums,
    Transform,
    grid_features,
    grid_responses,
    instruments_on_grid,
)
from truthful.one_release import LeaveOneOut
from truthful.settlement.draw import replay
from truthful.share_release import ShareRelease
from truthful.study.credibility import LevelBeliefs, ShareBeliefs

#: Predictions in floats may differ from rational ones, and from each other, by so much.
ROUNDING = 1e-12
#: Noise that leaves a matrix as it is, so that its eigenvalues are not raised.
QUIET = 1e4
RELEASES = 8
#: Shares that others may seem to have, and to predict where they are asked, with noise: also such as cannot be.
SHARES = (-1e6, -0.5, *(k / 20 for k in range(21)), 1.5, 1e6)

Integers = tuple[int, ...]
#: What somebody says: an answer or, where she is asked for it, an answer and a prediction.
Said = float | tuple[float, ...]


def without_her(estimate: LeaveOneOut, kx: Integers, kz: Integers, ky: int) -> Fraction:
    """What the others predict of a player on the grid, in rational numbers.

    Of exact sums, by elimination from the sums without her; else with the inverse that is published.
    """
    left = [k - z * ky for k, z in zip(estimate.vector, kz, strict=True)]
    if estimate.matrix is not None and estimate.matrix_scale is None:
        matrix = [
            [int(m) - z * x for m, x in zip(row, kx, strict=True)]
            for row, z in zip(estimate.matrix, kz, strict=True)
        ]
        return _dot(kx, _solve(matrix, left)) / GRID
    w = [_dot(kx, map(Fraction, column)) for column in estimate.inverse.T.tolist()]
    kept = 1 - _dot(kz, w) / PRODUCT if estimate.kept is None else Fraction(estimate.kept)
    return _dot(left, w) / (GRID * PRODUCT * kept)


def _dot(integers: Sequence[int], fractions: Iterable[Fraction]) -> Fraction:
    return sum((k * f for k, f in zip(integers, fractions, strict=True)), Fraction(0))


def _solve(matrix: list[list[int]], right: list[int]) -> list[Fraction]:
    """The solution of a regular system, by Gauss's elimination in fractions."""
    d = len(right)
    rows = [[Fraction(k) for k in (*row, b)] for row, b in zip(matrix, right, strict=True)]
    for j in range(d):
        pivot = max(range(j, d), key=lambda i: abs(rows[i][j]))
        rows[j], rows[pivot] = rows[pivot], rows[j]
        for i in range(d):
            if i != j and rows[i][j]:
                factor = rows[i][j] / rows[j][j]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[j], strict=True)]
    return [row[-1] / row[j] for j, row in enumerate(rows)]


def on_grid(
    X: Floats, y: Floats, mechanism: Attacked, beliefs: Believed
) -> list[tuple[Integers, Integers, int]]:
    """k_x, k_ζ and k_y of every record."""
    kx = grid_features(X)
    kz = instruments_on_grid(kx, mechanism.transform, mechanism.norm)
    ky = grid_responses(answers_of(y), beliefs.response_bound)
    return [
        (tuple(map(int, x)), tuple(map(int, z)), int(k))
        for x, z, k in zip(kx.tolist(), kz.tolist(), ky.tolist(), strict=True)
    ]


def estimate_finding(
    product: Product, mechanism: Attacked, beliefs: Believed, sums: Sums, bits: Bits
) -> Finding:
    """Whether a release is made of the answers that it was given, also where they are noise alone."""
    listener = Listener(product.answer(bits))
    released = product.release(sums, mechanism, beliefs, listener)
    expected = mechanism.estimate(listener.answers, sums.count, beliefs, sums.matrix)
    same = visible_parts(released) == visible_parts(expected)
    return Finding(
        name="estimate",
        claim="the estimate follows from the noisy answers and the count alone, bit for bit"
        if mechanism.protects == "records"
        else "the estimate follows from the noisy answers and sums of features alone, bit for bit",
        found="recomputed from the answers" if same else "something else in the estimate",
        confidence="certain, for this draw",
        passed=same,
    )


def leave_one_out_finding(
    product: Product, mechanism: Attacked, beliefs: Believed, bits: Bits, seed: int
) -> Finding:
    """Whether a report has any part in what others predict of her who gave it, loud noise or next to none."""
    X, y = crowd(beliefs, seed)
    rng = np.random.default_rng(seed)
    moved, stuck, wrong, tried = 0, 0, 0, 0
    # What is clipped does not show what is in it.
    open_ended = without_clipping(mechanism)
    for epsilon in (mechanism.epsilon, QUIET):
        loud = replace(open_ended, epsilon=epsilon)
        noise = _noise(product, product.statistics(X, y, loud, beliefs), loud, beliefs, product.answer(bits))
        for i in (0, len(y) - 1):
            told, paid, vectors = [], list[tuple[float, ...]](), set()
            said = some_answers(beliefs, rng)
            for report in said:
                reports = y.copy()
                reports[i] = report
                sums = product.statistics(X, reports, loud, beliefs)
                estimate = product.release(sums, loud, beliefs, _add_noise(noise))
                scored = product.score_players(estimate, loud, beliefs, X, reports)
                floats = [float(scored.peer_prediction[i])]
                if isinstance(scored, AskedScored):
                    floats.append(float(scored.others_prediction[i]))
                    paid.append((float(scored.others_answer[i]), float(scored.surprise[i])))
                exact = exact_predictions(estimate, loud, beliefs, X, reports, i)
                told.append(list(zip(exact, floats, strict=True)))
                vectors.add((estimate.vector, estimate.predictions))
                tried += 1
            for several in zip(*told, strict=True):
                rational, floats = {q for q, _ in several}, [p for _, p in several]
                size = max(1.0, *(abs(float(q)) for q in rational))
                moved += len(rational) > 1 or max(floats) - min(floats) > ROUNDING * size
                wrong += any(abs(Fraction(p) - q) > ROUNDING * size for p in floats for q in rational)
            for numbers in zip(*paid, strict=True):
                moved += max(numbers) - min(numbers) > ROUNDING * max(1.0, *map(abs, numbers))
            stuck += len(vectors) < len(said)
    faults = [
        words
        for words, count in (
            ("a player's own report moves what others predict of her", moved),
            ("predictions that are not those of the sums without her", wrong),
            ("reports that move nothing that is released", stuck),
        )
        if count
    ]
    return Finding(
        name="leave-one-out",
        claim="what others predict of a player has nothing of her own report in it, draw by draw",
        found=", ".join(faults)
        or f"no change over {tried} reports, and the rational value of the sums without her",
        confidence=f"certain, for these records; floats to {ROUNDING:g}",
        passed=not faults,
        figures={"reports": tried},
    )


def exact_predictions(
    estimate: LeaveOneOut, mechanism: Attacked, beliefs: Believed, X: Floats, y: Floats, player: int
) -> list[Fraction]:
    """All that others say of a player, and that pays her, in rational numbers."""
    p = without_her(estimate, *on_grid(X[[player]], y[[player]], mechanism, beliefs)[0])
    found = [as_told(beliefs, p)]
    if isinstance(mechanism, AskedRelease):
        km = int(grid_responses(y[[player], 1], beliefs.response_bound)[0])
        found.append(others_prediction(estimate, mechanism, km, len(y) - 1))
    return found


def others_prediction(estimate: LeaveOneOut, mechanism: AskedRelease, km: int, others: int) -> Fraction:
    """The others' average prediction, in rational numbers: the released sum less her own, over how many they are."""
    assert estimate.predictions is not None
    weight = Fraction(mechanism.ratio) * GRID
    return (Fraction(estimate.predictions) / weight - km) / (GRID * others)


def joint_finding(product: Product, mechanism: Attacked, beliefs: Believed, bits: Bits, seed: int) -> Finding:
    """Whether what everybody else sees is a function of the release and of others' records, for two neighbours."""
    X, y = crowd(beliefs, seed)
    other, reports = X.copy(), y.copy()
    y[0], reports[0] = beliefs.response_bound, -beliefs.response_bound
    if mechanism.protects == "records":
        other[0] = X[1]
    people = (X, y), (other, reports)
    one, two = (product.statistics(F, r, mechanism, beliefs) for F, r in people)
    asked = [overhear(product, sums, mechanism, beliefs) for sums in (one, two)]
    loss = exact_loss(*asked)
    # What both would release without noise, and some releases with it.
    points = [tuple(each.query.value for each in queries) for queries in asked]
    for _ in range(RELEASES):
        listener = Listener(product.answer(bits))
        product.release(one, mechanism, beliefs, listener)
        points.append(tuple(tuple(answer) for answer in listener.answers))
    differ = 0
    for point in points:
        views = []
        for sums, (F, r) in zip((one, two), people, strict=True):
            estimate = product.release(sums, mechanism, beliefs, replay(point))
            paid = product.score_players(estimate, mechanism, beliefs, F, r).payment
            views.append((visible_parts(estimate), paid[1:].tobytes()))
        differ += views[0] != views[1]
    return Finding(
        name="joint privacy",
        claim=f"the release and everybody else's payments together show at most ε = {mechanism.epsilon:.6g}",
        found=f"something beside the release in {differ} of {len(points)}"
        if differ
        else f"{float(loss):.6g}: given any of {len(points)} releases, neighbours look the same to {len(y) - 1} others",
        confidence="exact fractions, for these neighbours",
        passed=not differ and loss <= Fraction(mechanism.epsilon),
        figures={"loss": float(loss), "releases": len(points), "differ": differ},
    )


def range_findings(
    product: Product, mechanism: Attacked, beliefs: Believed, seed: int
) -> tuple[Finding, ...]:
    """Of shares and with predictions, whether every payment lies within its range, whatever anybody does.

    All answers, after releases of all kinds: shares that were thought possible, and shares that no study has.
    """
    if not isinstance(beliefs, ShareBeliefs | LevelBeliefs):
        return ()
    X, y = crowd(beliefs, seed)
    sums = product.statistics(X, y, mechanism, beliefs)
    M = (sums.matrix / PRODUCT).astype(np.float64)
    low, high = _payment_range(mechanism, beliefs, X)
    paid: list[float] = []
    for share, predicted in pairs(SHARES, SHARES[::6] if isinstance(mechanism, AskedRelease) else (0.0,)):
        theta = np.zeros(beliefs.dimension)
        theta[0] = (2 * share - 1) * beliefs.scale
        released = [round(k * PRODUCT) for k in (M @ theta).tolist()]
        if isinstance(mechanism, AskedRelease):
            released.append(round((2 * predicted - 1) * len(y) * mechanism.ratio * PRODUCT))
        estimate = product.release(sums, mechanism, beliefs, replay((tuple(released),)))
        for answer in some_answers(beliefs, np.random.default_rng(seed)):
            said = np.broadcast_to(answer, y.shape).copy()
            paid += product.score_players(estimate, mechanism, beliefs, X, said).payment.tolist()
    outside = sum(not low <= payment <= high for payment in paid)
    return (
        Finding(
            name="payments",
            claim=f"every payment lies between {low:.6g} and {high:.6g}, whatever anybody does",
            found=f"{outside or 'none'} of {len(paid):,} outside; {min(paid):.6g} to {max(paid):.6g}",
            confidence="certain, for these releases",
            passed=not outside,
            figures={"payments": len(paid), "outside": outside},
        ),
    )


def _payment_range(mechanism: Attacked, beliefs: Believed, X: Floats) -> tuple[float, float]:
    """The least and the most that a plan promises to pay to anybody of these."""
    if isinstance(mechanism, ShareRelease):
        return mechanism.payment_range
    assert isinstance(mechanism, AskedRelease)
    assert isinstance(beliefs, LevelBeliefs)
    s = beliefs.slopes(X, level(X, mechanism, beliefs).mean)
    gain = mechanism.score_weight * float(largest_gain(mechanism.rule, s, mechanism.clip).max())
    return 0.0, mechanism.base_payment + gain + mechanism.prediction_payment


def as_told(beliefs: Believed, p: Fraction) -> Fraction:
    """A prediction as receipts have it: of shares, the share."""
    return (1 + p) / 2 if isinstance(beliefs, ShareBeliefs) else p


def some_answers(beliefs: Believed, rng: np.random.Generator) -> tuple[Said, ...]:
    """A few that differ: of shares, all there are; with predictions, pairs."""
    Y = beliefs.response_bound
    if isinstance(beliefs, LevelBeliefs):
        answers = (-Y, Y) if beliefs.shares is not None else (-Y, 0.0, rng.uniform(-Y, Y), Y)
        return *pairs(answers, (-Y, Y)), (answers[0], rng.uniform(-Y, Y))
    if isinstance(beliefs, ShareBeliefs):
        return tuple(np.linspace(-1.0, 1.0, beliefs.levels).tolist())
    return -Y, 0.0, Y, rng.uniform(-Y, Y)


def crowd(beliefs: Believed, seed: int) -> tuple[Floats, Floats]:
    """A few people with features in all directions, of all lengths, and any answers; of shares with an intercept."""
    d, rng = beliefs.dimension, np.random.default_rng(seed)
    if isinstance(beliefs, ShareBeliefs | LevelBeliefs):
        X = rng.uniform(-1, 1, (6 * d + 2, d)) / beliefs.scale
        X[:, 0] = 1 / beliefs.scale
        shares = beliefs if isinstance(beliefs, ShareBeliefs) else beliefs.shares
        answers = rng.uniform(-1, 1, len(X))
        if shares is not None:
            answers = rng.choice(np.linspace(-1.0, 1.0, shares.levels), len(X))
        if isinstance(beliefs, ShareBeliefs):
            return X, answers
        return X, np.stack([answers, rng.uniform(-1, 1, len(X))], axis=1)
    X = np.concatenate([np.eye(d), *([-np.eye(d)] * 2), rng.normal(size=(3 * d + 2, d))])
    X *= rng.uniform(0.3, 1, len(X))[:, None] / np.linalg.norm(X, axis=1, keepdims=True)
    return X, rng.uniform(-1, 1, len(X)) * beliefs.response_bound


def _noise(
    product: Product, sums: Sums, mechanism: Attacked, beliefs: Believed, answer: AddNoise
) -> list[list[int]]:
    """One draw of the noise of a whole release."""
    listener = Listener(answer)
    product.release(sums, mechanism, beliefs, listener)
    return [
        [k - value for k, value in zip(answered, asked.query.value, strict=True)]
        for answered, asked in zip(listener.answers, listener.asked, strict=True)
    ]


def _add_noise(noise: Sequence[Sequence[int]]) -> AddNoise:
    """Answers with that very noise, whatever is asked."""
    remaining = iter(noise)
    return lambda query, epsilon: [k + n for k, n in zip(query.value, next(remaining), strict=True)]


def recover_features(
    matrix: PythonIntegers,
    others: Sequence[tuple[Integers, Integers]],
    transform: Transform,
    norm: str = "l2",
) -> Integers | None:
    """A player's features on the grid, but for their sign, from Σ k_ζ k_xᵀ and the (k_x, k_ζ) of all others."""
    left = matrix.copy()
    for kx, kz in others:
        left = left - np.outer(np.array(kz, dtype=object), np.array(kx, dtype=object))
    rows = [[int(k) for k in row] for row in left]
    longest = max(rows, key=lambda row: sum(k * k for k in row))
    common = gcd(*longest)
    if common == 0:
        return None
    # Every row is a multiple of k_x, hence of the primitive vector along it; its factor follows from the lengths.
    along = [k // common for k in longest]
    square = sum(k * k for row in rows for k in row)
    length = isqrt(sum(k * k for k in along))
    largest = max(1, GRID // max(1, length))
    low, high = 1, largest
    while low < high:  # ‖k_ζ‖·‖k_x‖ grows with the factor
        middle = (low + high) // 2
        if _square(along, middle, transform, norm) < square:
            low = middle + 1
        else:
            high = middle
    for factor in range(max(1, low - 8), min(largest, low + 8) + 1):
        kx = tuple(factor * k for k in along)
        if np.array_equal(np.outer(_instrument(kx, transform, norm), np.array(kx, dtype=object)), left):
            return kx
    return None


def _square(along: list[int], factor: int, transform: Transform, norm: str) -> int:
    kx = tuple(factor * k for k in along)
    return sum(int(k) ** 2 for k in _instrument(kx, transform, norm)) * sum(k * k for k in kx)


def _instrument(kx: Integers, transform: Transform, norm: str) -> PythonIntegers:
    kz = instruments_on_grid(np.array([kx], dtype=np.float64), transform, norm)[0]
    return np.array([int(k) for k in kz], dtype=object)
