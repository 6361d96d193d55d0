"""The sixth attack, on the wiring: settlements that are interrupted and resumed, and where their chance comes from.

A settlement that is interrupted after its draw must be finished with that draw: a second one would spend twice the
privacy. And noise must come from the operating system: whoever can repeat it can subtract it. So the operating
system's bytes are replaced, for once, by bytes that repeat: the same bytes must give the same draw, although the clock
has gone on and every other generator with it, and other bytes another one.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from truthful.auditor.invented import interrupted, invented_reports, place
from truthful.auditor.product import Product, estimates_from
from truthful.auditor.record import Finding
from truthful.auditor.released import follows
from truthful.lattice import SeededBits
from truthful.plan import Plan
from truthful.settlement.draw import Draw

KEY_BITS, NOISE_BITS = 128, 30


def restart_finding(product: Product, plan: Plan, seed: int) -> Finding:
    """Whether a settlement that is interrupted twice releases what it first drew."""
    reports = invented_reports(plan, seed)
    with place(plan) as (there, out):
        drawn = [interrupted(product, there, reports, out) for _ in range(2)]
        settlement = product.settle(there, reports, out=out, on_bad="error", seed=None, progress=None)
    release, first = settlement.release, drawn[0]
    estimates = estimates_from(first.answers, release.groups, there.mechanism, there.study.beliefs)
    same = drawn[1] == first and follows(release, estimates)
    return Finding(
        name="restart",
        claim="a settlement that is interrupted and resumed releases the same draw, bit for bit",
        found="the same draw after two interruptions" if same else "another draw after an interruption",
        confidence="certain, for these two",
        passed=same,
    )


def randomness_finding(product: Product, plan: Plan, seed: int) -> Finding:
    """Whether a draw is a function of the operating system's bytes alone, and takes enough of them."""
    reports = invented_reports(plan, seed)
    (one, bits), (same, _), (other, _) = (
        _from_bytes(product, plan, reports, stream) for stream in (seed, seed, seed + 1)
    )
    rehearsed = [_draw(product, plan, reports, seed) for _ in range(2)]
    needed = _needed_bits(one)
    complaints = {
        "chance that is not the operating system's": _chance(one) != _chance(same),
        "chance that a restarted program repeats": _repeated(one, other),
        f"{bits:,} random bits for a draw that has {needed:,}": bits < needed,
        "a rehearsal that its seed does not repeat": _chance(rehearsed[0]) != _chance(rehearsed[1]),
        "a real draw marked as a rehearsal": any(draw.seed is not None for draw in (one, same, other)),
        "a rehearsal not marked as one": any(draw.seed != seed for draw in rehearsed),
    }
    faults = [complaint for complaint, holds in complaints.items() if holds]
    return Finding(
        name="randomness",
        claim="noise and halves follow from the operating system's bytes alone; only a rehearsal repeats itself",
        found=", ".join(faults) or "the same bytes give the same draw, others another; rehearsals are marked",
        confidence="certain, for these five",
        passed=not faults,
        figures={"random_bits": bits, "needed_bits": needed},
    )


def _chance(draw: Draw) -> tuple[object, ...]:
    """What chance decided of a draw, but for its name."""
    return draw.key, draw.answers


def _repeated(one: Draw, other: Draw) -> bool:
    """Whether any part of two draws is the same; noise of a scale of 2^30 steps agrees by chance once in 2^30."""
    return one.key == other.key or any(a == b for a, b in zip(one.answers, other.answers, strict=True))


def _needed_bits(draw: Draw) -> int:
    """What a key and noise hold: noise of a scale of t lattice steps has more than log2 t bits a number.

    A lattice is some 2^30 times finer than its noise, or more. An exact sampler takes ten times as many bits.
    """
    return KEY_BITS + NOISE_BITS * sum(len(answer) for answer in draw.answers)


def _draw(product: Product, plan: Plan, reports: Any, seed: int | None) -> Draw:
    with place(plan) as (there, out):
        return interrupted(product, there, reports, out, seed)


def _from_bytes(product: Product, plan: Plan, reports: Any, stream: int) -> tuple[Draw, int]:
    """The draw of a first settlement while the operating system's bytes are those of a stream, and the bits taken."""
    with place(plan) as (there, out), _system_bytes(stream) as taken:
        draw = interrupted(product, there, reports, out)
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
