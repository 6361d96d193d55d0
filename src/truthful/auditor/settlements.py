"""Attacks on real settlements: the reports they use, the noise they draw, what they publish and pay.

Hundreds of small settlements with noise from fresh keys, each stopped once it has drawn. Two of their reports
are absurd and must be clipped. A draw less the exact sums of the same reports is the noise: it must follow the plan's
law at the plan's scale. Then whole settlements are read: everything released must follow from the draw, and everybody's
payment from the release and her own record. Draws are planted, so that all that is released is known: whatever is then
replaced in a record, nothing that others see may change, not one bit of the public files, not a word of a refusal, and
not one payment. That is joint privacy: all payments but her own are functions of the release and of others' records.
And a player's own report must not move the others' prediction for her, which is computed a second time in rational
numbers, from the sums without her.

Last, what is *not* promised. Where answers are protected, the matrix of features is published without noise: anybody
who knows everybody else's features can subtract them and is left with ζxᵀ, which is x up to its sign.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, isqrt
from operator import eq
from typing import Any

import numpy as np

from truthful.asked_release import AskedRelease
from truthful.auditor.attack_surface import (
    Attacked,
    Believed,
    Finding,
    Product,
    SpentQuery,
    answers_of,
    visible_parts,
)
from truthful.auditor.neighbours import replaced_part
from truthful.auditor.noise_tests import few_draws_finding, noises_of
from truthful.auditor.trial_settlements import (
    ABSURD,
    TrialSettlement,
    absurd_reports,
    clip_reports,
    exact_sums,
    interrupt_settlement,
    invented_reports,
    make_absurd,
    normalise_reports,
    on_bad_for,
    outcome,
    plant_answers,
    prediction_columns,
    read_predictions,
    replace_answers,
    settle_trial,
    trial_directory,
)
from truthful.check import Floats
from truthful.errors import InputError, Refused, TruthfulError
from truthful.files import sha256
from truthful.lattice import KEY_BYTES, SeededBits
from truthful.moments import (
    GRID,
    PRODUCT,
    PythonIntegers,
    Transform,
    grid_features,
    grid_responses,
    instruments_on_grid,
)
from truthful.one_release import LeaveOneOut, OneRelease
from truthful.plan import Plan
from truthful.release import Receipt, Release, verify
from truthful.settlement.atomic_release import LEDGER, read_ledger
from truthful.settlement.draw import Draw
from truthful.study.credibility import ShareBeliefs

FEWEST_SETTLEMENTS = 40
SAMPLES_A_SETTLEMENT = 40  # a settlement takes as long as this many releases
WATCHED = 6  # players whose predictions are recomputed in rational numbers
ROUNDING = 1e-12  # predictions in floats may differ by this from rational ones, and from each other
KEY_BITS = 8 * KEY_BYTES

Integers = tuple[int, ...]


def drawn_findings(product: Product, plan: Plan, seed: int, samples: int) -> tuple[Finding, Finding]:
    """Whether settlements use the reports as they should, and whether their noise is the plan's."""
    settlements = max(FEWEST_SETTLEMENTS, samples // SAMPLES_A_SETTLEMENT)
    reports = absurd_reports(plan, seed)
    drawn = [_draw_once(product, plan, reports) for _ in range(settlements)]
    noise = few_draws_finding(
        "settlements: noise",
        "what real settlements draw has the plan's law and scale",
        f"no fault in {settlements} settlements",
        noises_of([asked for _, asked, _ in drawn], [draw.answers for draw, _, _ in drawn]),
    )
    return _reports_finding(product, plan, reports, [same for *_, same in drawn]), noise


def _draw_once(product: Product, plan: Plan, reports: Any) -> tuple[Draw, tuple[SpentQuery, ...], bool]:
    """A draw, the queries it should answer, and whether it was made from exactly those statistics."""
    with trial_directory(plan) as (there, out):
        draw, used = interrupt_settlement(product, there, reports, out, on_bad=on_bad_for(plan.study))
        sums = exact_sums(product, there, reports)
        epsilon, queries = Fraction(plan.mechanism.epsilon), plan.mechanism.queries(sums, plan.study.believed)
        asked = tuple(SpentQuery(query, epsilon * query.share) for query in queries)
    return draw, asked, used == sums.digest()


def _reports_finding(product: Product, plan: Plan, reports: Any, same: list[bool]) -> Finding:
    # Nobody may be left out for what she answered where everybody's features are published.
    refusing = ("error", "drop") if plan.mechanism.protects == "answers" else ("error",)
    moved = on_bad_for(plan.study) == "clip"
    if not moved:
        refusing = (*refusing, "clip")
    faults = [] if all(same) else [f"other statistics in {same.count(False)} settlements of {len(same)}"]
    faults += [
        f"absurd reports settled with on_bad = {on_bad!r}"
        for on_bad in refusing
        if not _is_refused(product, plan, make_absurd(plan.study, reports), on_bad)
    ]
    claim = f"settlements move numbers of {ABSURD:g} into their ranges, or refuse them, as they are told"
    used = "clipped reports" if moved else "the reports"
    return Finding(
        name="settlements: reports",
        claim=claim
        if moved
        else f"settlements refuse answers of {ABSURD:g}: nothing lies between two answers",
        found=", ".join(faults) or f"the exact statistics of {used} in {len(same)} settlements",
        confidence="exact integers, for these reports",
        passed=not faults,
        figures={"settlements": len(same)},
    )


def _is_refused(product: Product, plan: Plan, reports: Any, on_bad: str) -> bool:
    """Whether a settlement that must not clip refuses absurd reports, and leaves no files."""
    with trial_directory(plan) as (there, out):
        try:
            product.settle(there, reports, out=out, on_bad=on_bad)
        except TruthfulError:
            return not out.exists()
        return False


def settled_findings(product: Product, plan: Plan, seed: int) -> tuple[Finding, ...]:
    """Findings on releases and payments: whether they follow from what they may; and on what is not protected."""
    reports = absurd_reports(plan, seed)
    real = settle_trial(product, plan, reports)
    # The same settlement with hardly any noise, and with all of it.
    clear, noisy = (
        settle_trial(product, plan, reports, answers)
        for answers in (plant_answers(product, plan, reports), real.draw.answers)
    )
    return (
        _release_finding(product, plan, reports, (real, clear)),
        _payments_finding(plan, reports, clear),
        _own_finding(product, plan, reports),
        _others_finding(product, plan, reports, (clear, noisy)),
        *_features_findings(plan, reports, real),
    )


def _release_finding(
    product: Product, plan: Plan, reports: Any, several: tuple[TrialSettlement, ...]
) -> Finding:
    """Whether everything in a release that depends on data follows from its draw and from the sums of features."""
    mechanism, sums = plan.mechanism, exact_sums(product, plan, reports)
    passed = True
    for each in several:
        estimate = mechanism.estimate(each.draw.answers, sums.count, plan.study.believed, sums.matrix)
        stated, release = each.release.estimate(), each.release
        passed &= release.players == sums.count and release.theta == tuple(estimate.theta.tolist())
        if stated is not None:
            passed &= visible_parts(stated) == visible_parts(estimate)
        else:
            matrix = [[str(int(k)) for k in row] for row in sums.matrix]
            hidden = release.statistics
            passed &= hidden.matrix is None and hidden.matrix_sha256 == sha256([each.draw.secret, *matrix])
            passed &= tuple(map(int, hidden.vector)) == each.draw.answers[-1]
    return Finding(
        name="settlements: release",
        claim="a settlement releases its draw: the estimate follows from it, bit for bit",
        found="recomputed from the draw" if passed else "an estimate that does not follow from the draw",
        confidence=f"certain, for these {len(several)} settlements",
        passed=passed,
    )


def _payments_finding(plan: Plan, reports: Any, found: TrialSettlement) -> Finding:
    """Whether everybody's payment follows from the release and her own record."""
    values, faulty = clip_reports(plan.study, reports), 0
    for place_of, player in enumerate(reports["player"].to_pylist()):
        receipt = found.receipts[player]
        used: dict[str, object] = {**receipt.features, plan.study.response.name: receipt.report}
        used |= dict.fromkeys(prediction_columns(plan.study), receipt.prediction)
        hers = {name: column[place_of] for name, column in values.items()}
        faulty += used != hers or not _verifies(found.release, receipt)
    return Finding(
        name="settlements: payments",
        claim="every payment follows from the release and one's own record",
        found=f"{faulty or 'none'} of {reports.num_rows} payments differ",
        confidence="certain, for this settlement",
        passed=not faulty,
        figures={"payments": reports.num_rows, "differ": faulty},
    )


def _verifies(release: Release, receipt: Receipt) -> bool:
    """Whether a payment is verified; False for a release whose numbers do not follow from each other."""
    try:
        return verify(release, receipt).verified
    except InputError:
        return False


def _own_finding(product: Product, plan: Plan, reports: Any) -> Finding:
    """Whether a player's own report moves the prediction for her, in two settlements with the same noise."""
    mechanism, beliefs, study = plan.mechanism, plan.study.believed, plan.study
    sums, faults, watched = exact_sums(product, plan, reports), set(), range(2, 2 + WATCHED)
    for player in watched:
        name, told, vectors = reports["player"][player].as_py(), [], []
        for answer in (study.response.low, study.response.high):
            changed = replace_answers(study, reports, answer, player)
            drawn = plant_answers(product, plan, changed, player)
            estimate = mechanism.estimate(drawn, sums.count, beliefs, sums.matrix)
            X, y = normalise_reports(study, changed)
            p, *more = exact_predictions(estimate, mechanism, beliefs, X, y, player)
            within = [_clip(mechanism, p, X[player]), *more]
            paid = read_predictions(product, plan, changed, drawn, name)
            if any(abs(Fraction(p) - q) > ROUNDING for p, q in zip(paid[: len(within)], within, strict=True)):
                faults.add("predictions that are not those of the sums without her")
            told.append(paid)
            vectors.append(drawn[-1])
        if any(abs(p - q) > ROUNDING for p, q in zip(*told, strict=True)):
            faults.add("her own report moves what others predict of her")
        if vectors[0] == vectors[1] and any(on_grid(X[[player]], y[[player]], mechanism, beliefs)[0][1]):
            faults.add("her report moves nothing that is released")
    return Finding(
        name="settlements: own report",
        claim="a player's report moves the release, and nothing of what others predict of her",
        found=", ".join(sorted(faults))
        or f"no change for {len(watched)} players, and the rational value for each",
        confidence=f"certain, for these players; floats to {ROUNDING:g}",
        passed=not faults,
        figures={"players": len(watched)},
    )


def _clip(mechanism: Attacked, p: Fraction, x: Floats) -> Fraction:
    """A prediction as used in payments; those of shares are not clipped."""
    if not isinstance(mechanism, OneRelease):
        return p
    limit = Fraction(mechanism.clip * float(np.linalg.norm(grid_features(x[None]))) / GRID)
    return min(max(p, -limit), limit)


def _others_finding(
    product: Product, plan: Plan, reports: Any, several: tuple[TrialSettlement, ...]
) -> Finding:
    """Whether anybody else can see that an answer, or a record, was replaced, if the draw is the same."""
    faults, replaced = set(), (2, reports.num_rows - 1)
    for found, place_of in zip(several, replaced, strict=True):
        player = reports["player"][place_of].as_py()
        try:
            after = settle_trial(product, plan, _with_another(plan, reports, place_of), found.draw.answers)
        except TruthfulError:
            faults.add("the draw cannot be replayed")
            continue
        if (after.release, after.files, after.said) != (found.release, found.files, found.said):
            faults.add("what is published changes")
        if {**after.receipts, player: None} != {**found.receipts, player: None}:
            faults.add("others' payments change")
    what = replaced_part(plan.mechanism)
    plural = f"{what}s".replace("answer and", "answers and")
    return Finding(
        name="settlements: others",
        claim=f"given the draw, a player's {what} decides nothing that others see: no bit, no payment but hers",
        found=", ".join(sorted(faults)) or f"no change when {len(replaced)} {plural} are replaced",
        confidence=f"certain, for these {plural}",
        passed=not faults,
        figures={"replaced": len(replaced)},
    )


def _with_another(plan: Plan, reports: Any, place_of: int) -> Any:
    """The reports with one changed: the far end of the range and, where records are protected, other features."""
    response, values = plan.study.response, clip_reports(plan.study, reports)
    answers = values[response.name]
    if plan.mechanism.protects == "records":
        for name, column in values.items():
            column[place_of] = column[0]
            at = reports.column_names.index(name)
            reports = reports.set_column(at, name, [column.tolist()])
    end = response.high if 2 * answers[place_of] < response.low + response.high else response.low
    return replace_answers(plan.study, reports, end, place_of)


def checks_finding(product: Product, plan: Plan, seed: int) -> Finding:
    """Whether a refusal, a count or a message depends on an answer, with people who can be settled and who cannot.

    Any answers can be turned into any others one at a time. So if two sets of answers are treated differently, so are
    two neighbours somewhere between them.
    """
    study, reports = plan.study, absurd_reports(plan, seed)
    drawn = plant_answers(product, plan, reports)
    alike = reports.take([0] * reports.num_rows).set_column(0, "player", reports["player"])
    # People, and whether weaker guarantees than promised are accepted for them.
    groups = {
        "good": [(reports, True)],
        "fewer than planned": [(reports, False)],
        "few": [(reports.slice(0, 3), True)],
        "alike": [(alike, True)],
    }
    if plan.mechanism.estimator == "noisy-statistics":  # then no decision may depend on features either
        groups["good"] += groups.pop("alike")
    faults, outcomes = [], 0
    for name, several in groups.items():
        found = set()
        for people, accept_less in several:
            low, high = (
                np.full(people.num_rows, float(end)) for end in (study.response.low, study.response.high)
            )
            first = ABSURD if on_bad_for(study) == "clip" else low[0]
            for answers in (np.array([first, *low[1:]]), high):
                found.add(outcome(product, plan, replace_answers(study, people, answers), drawn, accept_less))
                outcomes += 1
        if len(found) > 1:
            faults.append(f"{len(found)} outcomes for people who are {name}")
    return Finding(
        name="settlements: checks",
        claim="what is checked, counted, refused and said does not depend on any answer, nor does a word of it",
        found=", ".join(faults) or f"the same in {outcomes} settlements, of people of every kind",
        confidence="certain, for these answers",
        passed=not faults,
        figures={"settlements": outcomes},
    )


def _features_findings(plan: Plan, reports: Any, found: TrialSettlement) -> tuple[Finding, ...]:
    """An attack that is not prevented: given all others' features, the published matrix reveals one player's."""
    mechanism, study = plan.mechanism, plan.study
    known = study.shares is not None or study.levels is not None
    if mechanism.transform is None or (known and not study.features):
        return ()
    estimate, victims, exposed = found.release.estimate(), range(2, 2 + WATCHED), 0
    people = on_grid(*normalise_reports(study, reports), mechanism, study.believed)
    if estimate is None or estimate.matrix is None:
        told = "the matrix is kept back, and its hash has a secret salt: no guess of them can be tried out"
    else:
        for victim in victims:
            others = [(kx, kz) for i, (kx, kz, _) in enumerate(people) if i != victim]
            got = recover_features(estimate.matrix, others, mechanism.transform, mechanism.norm)
            hers = people[victim][0]
            exposed += got in (hers, tuple(-k for k in hers))
        told = f"those of {exposed} of {len(victims)} players, to the last digit: the matrix less all others'"
    if study.assigned:
        told += "; they were assigned by chance, and say nothing of anybody"
    return (
        Finding(
            name="features",
            claim="features, and who took part, are not protected from whoever knows everybody else's features",
            found=told,
            confidence="exact integers",
            passed=True,
            figures={"players": len(victims), "exposed": exposed},
            informational=True,
        ),
    )


def restart_finding(product: Product, plan: Plan, seed: int) -> Finding:
    """Whether a settlement that is interrupted twice releases its first draw, exactly once."""
    reports, faults = invented_reports(plan, seed), []
    with trial_directory(plan) as (there, out):
        drawn = [interrupt_settlement(product, there, reports, out)[0] for _ in range(2)]
        release = product.settle(there, reports, out=out, on_bad="error").release
        more = () if release.predictions is None else (int(release.predictions.total),)
        if drawn[1] != drawn[0] or (*map(int, release.statistics.vector), *more) != drawn[0].answers[-1]:
            faults.append("another draw after an interruption")
        try:
            product.settle(there, reports, out=out.with_name("again"), on_bad="error")
            faults.append("a second release that nobody asked for")
        except Refused:
            pass
        spent = [
            (entry.draw, entry.epsilon, entry.protects)
            for entry in read_ledger(out.with_name(LEDGER)).entries
        ]
    if spent != [(drawn[0].name, plan.mechanism.epsilon, plan.mechanism.protects)]:
        faults.append("a ledger that does not count this release, once")
    return Finding(
        name="restart",
        claim="a settlement that is interrupted and resumed releases the same draw, once, and its ε is counted once",
        found=", ".join(faults) or "the same draw after two interruptions; another one is refused",
        confidence="certain, for these three",
        passed=not faults,
    )


def randomness_finding(product: Product, plan: Plan, seed: int) -> Finding:
    """Whether a draw follows from the statistics and from a full-length key of the operating system's bytes."""
    reports = invented_reports(plan, seed)
    changed = _with_another(plan, reports, 2)
    first, same, restarted, changed_draw, rehearsed, again = (
        _draw_from_bytes(product, plan, *given)
        for given in (
            (reports, seed, None),
            (reports, seed, None),
            (reports, seed + 1, None),
            (changed, seed, None),
            (reports, seed, seed),
            (reports, seed + 1, seed),
        )
    )
    complaints = {
        "chance that is not the operating system's": first.draw.answers != same.draw.answers,
        # At a scale of 2^30 steps, a part of two noises agrees by chance once in 2^30.
        "chance that a restarted program repeats": any(map(eq, first.noise, restarted.noise)),
        "noise that other reports have too": any(map(eq, first.noise, changed_draw.noise)),
        f"a key of fewer than {KEY_BITS} random bits": not first.keys or not restarted.keys,
        "a rehearsal that its seed does not repeat": rehearsed.draw != again.draw,
        "a real draw marked as a rehearsal": any(found.rehearsal for found in (first, same, restarted)),
        "a rehearsal not marked as one": not (rehearsed.rehearsal and again.rehearsal),
    }
    faults = [complaint for complaint, holds in complaints.items() if holds]
    return Finding(
        name="randomness",
        claim="noise follows from a key of the operating system's bytes and from the exact statistics, and from "
        "nothing else; only a rehearsal repeats itself",
        found=", ".join(faults)
        or "the same bytes and reports give the same draw, others another; rehearsals are marked",
        confidence="certain, for these six",
        passed=not faults,
        figures={"keys": first.keys},
    )


@dataclass(frozen=True)
class DrawFromBytes:
    """A first settlement's draw, its noise, how often the bits of a whole key were taken at once, and whether
    everything else was drawn from a seed."""

    draw: Draw
    noise: Integers
    keys: int
    rehearsal: bool


def _draw_from_bytes(
    product: Product, plan: Plan, reports: Any, stream: int, rehearsal: int | None
) -> DrawFromBytes:
    """A settlement whose operating system's bytes come from a stream."""
    with trial_directory(plan) as (there, out), _system_bytes(stream) as taken:
        draw, _ = interrupt_settlement(product, there, reports, out, rehearsal)
    queries = plan.mechanism.queries(exact_sums(product, plan, reports), plan.study.believed)
    noise = (
        k - value
        for query, answer in zip(queries, draw.answers, strict=True)
        for value, k in zip(query.value, answer, strict=True)
    )
    return DrawFromBytes(draw, tuple(noise), taken.count(KEY_BITS), draw.secret == str(rehearsal))


@contextmanager
def _system_bytes(stream: int) -> Iterator[list[int]]:
    """Take everything that Python's `secrets` and `os.urandom` give from a stream; yields the sizes taken, in bits."""
    bits, taken, real = SeededBits(stream), list[int](), os.urandom

    def urandom(size: int) -> bytes:
        taken.append(8 * size)
        return bits.bits(8 * size).to_bytes(size, "little")

    # `secrets` asks random.SystemRandom, which holds on to the function under a name of its own.
    os.urandom, random._urandom = urandom, urandom  # type: ignore[attr-defined]
    try:
        yield taken
    finally:
        os.urandom, random._urandom = real, real  # type: ignore[attr-defined]


def exact_predictions(
    estimate: LeaveOneOut, mechanism: Attacked, beliefs: Believed, X: Floats, y: Floats, player: int
) -> list[Fraction]:
    """The others' predictions that a player is paid by, in rational numbers."""
    p = without_her(estimate, *on_grid(X[[player]], y[[player]], mechanism, beliefs)[0])
    found = [(1 + p) / 2 if isinstance(beliefs, ShareBeliefs) else p]
    if isinstance(mechanism, AskedRelease):
        km = int(grid_responses(y[[player], 1], beliefs.response_bound)[0])
        # The released sum less her own, divided by the number of others.
        total = Fraction(estimate.predictions or 0) / (Fraction(mechanism.ratio) * GRID)
        found.append((total - km) / (GRID * (len(y) - 1)))
    return found


def without_her(estimate: LeaveOneOut, kx: Integers, kz: Integers, ky: int) -> Fraction:
    """The others' prediction for a player on the grid, in rational numbers.

    For exact sums by elimination, from the sums without her; else with the published inverse.
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


def recover_features(
    matrix: PythonIntegers,
    others: Sequence[tuple[Integers, Integers]],
    transform: Transform,
    norm: str = "l2",
) -> Integers | None:
    """A player's features on the grid, up to their sign, from Σ k_ζ k_xᵀ and the (k_x, k_ζ) of all others."""
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
