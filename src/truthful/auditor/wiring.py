"""The fourth attack, on the wiring: settlements that are interrupted and resumed, and where their chance comes from.

A settlement that is interrupted after its draw must be finished with that draw, and another one must be refused: a
second draw would spend twice the privacy. And noise must come from the operating system: whoever can repeat it can
subtract it. So the operating system's bytes are replaced, for once, by bytes that repeat: the same bytes must give
the same draw, although the clock has gone on and every other generator with it, and other bytes another one.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from truthful.auditor.invented import interrupted, invented_reports, one_release, place
from truthful.auditor.product import Product
from truthful.auditor.record import Finding
from truthful.errors import Refused
from truthful.lattice import SeededBits
from truthful.plan import Plan
from truthful.release import Release
from truthful.settlement.atomic_release import LEDGER, read_ledger
from truthful.settlement.draw import Draw

NOISE_BITS = 30


def restart_finding(product: Product, plan: Plan, seed: int) -> Finding:
    """Whether a settlement that is interrupted twice releases what it first drew, once and only once."""
    reports, faults = invented_reports(plan, seed), []
    with place(plan) as (there, out):
        drawn = [interrupted(product, there, reports, out) for _ in range(2)]
        release = product.settle(there, reports, out=out, on_bad="error").release
        assert isinstance(release, Release)
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
    if spent != [(drawn[0].name, plan.mechanism.epsilon, one_release(plan).protects)]:
        faults.append("a ledger that does not count this release, once")
    return Finding(
        name="restart",
        claim="a settlement that is interrupted and resumed releases the same draw, once, and its ε is counted once",
        found=", ".join(faults) or "the same draw after two interruptions; another one is refused",
        confidence="certain, for these three",
        passed=not faults,
    )


def randomness_finding(product: Product, plan: Plan, seed: int) -> Finding:
    """Whether a draw is a function of the operating system's bytes alone, and takes enough of them."""
    reports = invented_reports(plan, seed)
    (one, taken), (same, _), (other, _), (rehearsed, spare), (again, _) = (
        _from_bytes(product, plan, reports, stream, rehearsal)
        for stream, rehearsal in (
            (seed, None),
            (seed, None),
            (seed + 1, None),
            (seed, seed),
            (seed + 1, seed),
        )
    )
    # A rehearsal has no noise of the operating system's, but all else that takes bytes.
    bits, needed = taken - spare, NOISE_BITS * sum(len(answer) for answer in one.answers)
    complaints = {
        "chance that is not the operating system's": one.answers != same.answers,
        "chance that a restarted program repeats": _repeated(one, other),
        f"{bits:,} random bits for noise that has {needed:,}": bits < needed,
        "a rehearsal that its seed does not repeat": rehearsed.answers != again.answers,
        "a real draw marked as a rehearsal": any(draw.seed is not None for draw in (one, same, other)),
        "a rehearsal not marked as one": any(draw.seed != seed for draw in (rehearsed, again)),
    }
    faults = [complaint for complaint, holds in complaints.items() if holds]
    return Finding(
        name="randomness",
        claim="noise follows from the operating system's bytes alone; only a rehearsal repeats itself",
        found=", ".join(faults) or "the same bytes give the same draw, others another; rehearsals are marked",
        confidence="certain, for these five",
        passed=not faults,
        figures={"random_bits": bits, "needed_bits": needed},
    )


def _repeated(one: Draw, other: Draw) -> bool:
    """Whether any part of two draws is the same; noise of a scale of 2^30 steps agrees by chance once in 2^30."""
    return any(a == b for a, b in zip(one.answers, other.answers, strict=True))


def _from_bytes(
    product: Product, plan: Plan, reports: Any, stream: int, rehearsal: int | None
) -> tuple[Draw, int]:
    """The draw of a first settlement while the operating system's bytes are those of a stream, and the bits taken.

    A lattice is some 2^30 times finer than its noise, or more; an exact sampler takes ten times as many bits.
    """
    with place(plan) as (there, out), _system_bytes(stream) as taken:
        draw = interrupted(product, there, reports, out, rehearsal)
    return draw, sum(taken)


@contextmanager
def _system_bytes(stream: int) -> Iterator[list[int]]:
    """Everything that Python's `secrets` and `os.urandom` give is taken from a stream; how many bits is noted."""
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
