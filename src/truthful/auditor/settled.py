"""The fourth attack, on real settlements: the reports they use and the noise they draw.

Hundreds of small settlements with the operating system's noise, each stopped once it has drawn. Two of their reports
are absurd, and are to be clipped. What a draw answered, less the exact statistics of the same reports under the same
group key, is the noise: it must follow the plan's own law, at the plan's own scale.
"""

from __future__ import annotations

from typing import Any

from truthful.auditor.invented import (
    ABSURD,
    exact_halves,
    interrupted,
    invented_reports,
    place,
    statistics_digest,
    with_absurd_ones,
)
from truthful.auditor.noise_law import few_draws_finding, noises_of
from truthful.auditor.product import Asked, Product, promised
from truthful.auditor.record import Finding
from truthful.errors import InputError
from truthful.plan import Plan
from truthful.settlement.draw import Draw

FEWEST_SETTLEMENTS = 100
SAMPLES_A_SETTLEMENT = 40  # a settlement takes as long as so many releases


def settled_findings(product: Product, plan: Plan, seed: int, samples: int) -> tuple[Finding, Finding]:
    """Whether settlements use the reports as they should, and whether their noise is the plan's."""
    settlements = max(FEWEST_SETTLEMENTS, samples // SAMPLES_A_SETTLEMENT)
    reports = with_absurd_ones(plan.study, invented_reports(plan, seed))
    drawn = [_drawn(product, plan, reports) for _ in range(settlements)]
    noise = few_draws_finding(
        "settlements: noise",
        "what real settlements draw has the plan's law and scale",
        f"no fault in {settlements} settlements",
        noises_of([asked for _, asked, _ in drawn], [draw.answers for draw, _, _ in drawn]),
    )
    return _reports_finding([same for *_, same in drawn], _refused(product, plan, reports)), noise


def _drawn(product: Product, plan: Plan, reports: Any) -> tuple[Draw, tuple[Asked, ...], bool]:
    """A draw, what was to be asked for it, and whether it was made from those very statistics."""
    with place(plan) as (there, out):
        draw = interrupted(product, there, reports, out, on_bad="clip")
        halves = exact_halves(product, there.study, reports, bytes.fromhex(draw.key))
        asked = promised(halves, there.mechanism, there.study.beliefs)
    return draw, asked, draw.statistics == statistics_digest(halves)


def _refused(product: Product, plan: Plan, reports: Any) -> bool:
    """Whether a settlement that is to clip nothing refuses absurd reports, and leaves nothing."""
    with place(plan) as (there, out):
        try:
            product.settle(there, reports, out=out, on_bad="error", seed=None, progress=None)
        except InputError:
            return not out.exists()
        return False


def _reports_finding(same: list[bool], refused: bool) -> Finding:
    faults = [
        *([] if all(same) else [f"other statistics in {same.count(False)} settlements of {len(same)}"]),
        *([] if refused else ["absurd reports settled that were to be refused"]),
    ]
    return Finding(
        name="settlements: reports",
        claim=f"settlements move numbers of {ABSURD:g} into their ranges, or refuse them, as they are told",
        found=", ".join(faults) or f"the exact statistics of clipped reports in {len(same)} settlements",
        confidence="exact integers, for these reports",
        passed=not faults,
        figures={"settlements": len(same)},
    )
