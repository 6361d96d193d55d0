"""The fifth attack, on payments: joint privacy promises that your payment is the only one that your record decides.

A whole settlement is overheard: everything it released must follow from its draw. Then the same reports are settled
with a draw that is planted, as if after an interruption, whose two halves predict the opposite of each other: every
payment must follow from the release and one record. At last a record is replaced and the planted draw is replayed:
nothing that anybody else sees may change, not one bit of the public files and not one payment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from truthful.auditor.invented import (
    exact_halves,
    in_range,
    invented_reports,
    place,
    statistics_digest,
    with_absurd_ones,
)
from truthful.auditor.product import Product, estimates_from, promised
from truthful.auditor.record import Finding
from truthful.auditor.released import follows
from truthful.errors import TruthfulError
from truthful.groups import groups_of, player_hashes
from truthful.plan import Plan
from truthful.release import Receipt, Release, find_receipt, verify
from truthful.settlement.draw import Draw, read_draw
from truthful.settlement.once import open_target

PUBLIC_FILES = ("release.json", "report.html")


@dataclass(frozen=True, eq=False)
class Settled:
    """All that a settlement leaves, and the draw that it was made from."""

    release: Release
    receipts: dict[str, Receipt]
    files: tuple[bytes, ...]
    draw: Draw


def payment_findings(product: Product, plan: Plan, seed: int) -> tuple[Finding, Finding, Finding]:
    """Whether release, payments and the payments of others follow from what they may."""
    reports = with_absurd_ones(plan.study, invented_reports(plan, seed))
    real = _settled(product, plan, reports)
    groups = groups_of(player_hashes(reports["player"], bytes.fromhex(real.draw.key)))
    planted = _settled(product, plan, reports, _opposed(product, plan, reports, real.draw))
    replaced = [int(np.flatnonzero(groups == group)[-1]) for group in (0, 1)]
    return (
        _release_finding(plan, (real, planted)),
        _payments_finding(plan, reports, groups.tolist(), planted),
        _others_finding(product, plan, reports, replaced, planted),
    )


def _opposed(product: Product, plan: Plan, reports: Any, draw: Draw) -> Draw:
    """The draw with other answers: without noise, and as if θ were ±(R/2)(1, …, 1)/√d in the two halves.

    So nobody's peers predict the same as her own half, nor so much that it would be clipped for all.
    """
    study = plan.study
    values = in_range(study, reports)
    X = study.normalise(values, reports.num_rows)
    answers = X.sum(axis=1) * study.beliefs.radius / (2 * np.sqrt(study.dimension))
    groups = groups_of(player_hashes(reports["player"], bytes.fromhex(draw.key)))
    one, other = (
        product.statistics(X[groups == g], sign * answers[groups == g], study.beliefs)
        for g, sign in ((0, 1), (1, -1))
    )
    asked = promised((one, other), plan.mechanism, study.beliefs)
    return replace(draw, answers=tuple(query.query.value for query in asked))


def _release_finding(plan: Plan, several: tuple[Settled, ...]) -> Finding:
    passed = all(
        follows(
            settled.release,
            estimates_from(settled.draw.answers, settled.release.groups, plan.mechanism, plan.study.beliefs),
        )
        for settled in several
    )
    return Finding(
        name="settlements: release",
        claim="a settlement releases its draw: all three estimates follow from it, bit for bit",
        found="recomputed from the draw" if passed else "estimates that do not follow from the draw",
        confidence=f"certain, for these {len(several)} settlements",
        passed=passed,
    )


def _payments_finding(plan: Plan, reports: Any, groups: list[int], settled: Settled) -> Finding:
    """Whether everybody is paid what the release and her own record say, in the half that the key put her."""
    values = in_range(plan.study, reports)
    faulty = 0
    for place_of, player in enumerate(reports["player"].to_pylist()):
        receipt = settled.receipts[player]
        used = {**receipt.features, plan.study.response.name: receipt.report}
        hers = {name: column[place_of] for name, column in values.items()}
        faulty += (
            used != hers or receipt.group != groups[place_of] or not verify(settled.release, receipt).verified
        )
    return Finding(
        name="settlements: payments",
        claim="every payment follows from the release and one's own record",
        found=f"{faulty or 'none'} of {len(groups)} payments differ",
        confidence="certain, for this settlement",
        passed=not faulty,
        figures={"payments": len(groups), "differ": faulty},
    )


def _others_finding(
    product: Product, plan: Plan, reports: Any, replaced: list[int], settled: Settled
) -> Finding:
    """Whether anybody else notices that a record was replaced, the draw being the same; one record of each half."""
    faults = set()
    for place_of in replaced:
        player = reports["player"][place_of].as_py()
        try:
            after = _settled(product, plan, _with_another(plan, reports, place_of), settled.draw)
        except TruthfulError:
            faults.add("the draw cannot be replayed")
            continue
        if (after.release, after.files) != (settled.release, settled.files):
            faults.add("what is published changes")
        paid = ({**each.receipts, player: None} for each in (settled, after))
        if next(paid) != next(paid):
            faults.add("others' payments change")
    return Finding(
        name="settlements: others",
        claim="given the draw, a record decides nothing that others see: no published bit, no payment but its own",
        found=", ".join(sorted(faults)) or f"no change when {len(replaced)} records are replaced",
        confidence="certain, for these records",
        passed=not faults,
        figures={"replaced": len(replaced)},
    )


def _with_another(plan: Plan, reports: Any, place_of: int) -> Any:
    """One record replaced: the first player's features, and the far end of the response's range."""
    response, values = plan.study.response, in_range(plan.study, reports)
    far = (
        response.high if 2 * values[response.name][place_of] < response.low + response.high else response.low
    )
    for column in values.values():
        column[place_of] = column[0]
    values[response.name][place_of] = far
    return pa.table({"player": reports["player"], **values})


def _settled(product: Product, plan: Plan, reports: Any, draw: Draw | None = None) -> Settled:
    """A whole settlement, of a draw of its own or of one that is there already as after an interruption."""
    overheard: list[Draw | None] = []
    with place(plan) as (there, out):
        if draw is not None:
            _leave(draw, product, there, reports, out)

        def listen(stage: str, done: int, rows: int | None) -> None:
            if stage == "payments":
                overheard.append(read_draw(open_target(out).unfinished))

        settlement = product.settle(there, reports, out=out, on_bad="clip", seed=None, progress=listen)
        receipts = {
            player: find_receipt(settlement.receipts, player) for player in reports["player"].to_pylist()
        }
        files = tuple((out / name).read_bytes() for name in PUBLIC_FILES)
    kept = overheard[-1]
    assert kept is not None, "a settlement keeps its draw while it pays"
    return Settled(settlement.release, receipts, files, kept)


def _leave(draw: Draw, product: Product, plan: Plan, reports: Any, out: Path) -> None:
    """Leave a draw, as made for these reports, where an interrupted settlement has it."""
    digest = statistics_digest(exact_halves(product, plan.study, reports, bytes.fromhex(draw.key)))
    unfinished = open_target(out).unfinished
    unfinished.mkdir(mode=0o700)
    replace(draw, statistics=digest).save(unfinished)
