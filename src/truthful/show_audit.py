"""An audit as a security engineer reads it in a terminal."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from truthful.auditor import Audit
from truthful.show import table


def audit_view(audit: Audit) -> list[RenderableType]:
    """One row for every attack, then the verdict and what to do."""
    grid = table("Attacks on what the plan promises", "check", "claim", "found", "confidence", "verdict")
    for finding in audit.findings:
        verdict = Text("stands", "green") if finding.passed else Text("BROKEN", "bold red")
        grid.add_row(Text(finding.name, "bold"), finding.claim, finding.found, finding.confidence, verdict)
    return [grid, _verdict(audit), _power(audit), f"Repeat it: --seed {audit.seed} --samples {audit.samples}"]


def _power(audit: Audit) -> str:
    """What such an audit sees, and what it misses, in one line."""
    figures = {finding.name: finding.figures for finding in audit.findings}
    drawn, settled = (
        f"{figures[name].get('scale_error_caught', 0):.0%}" for name in ("noise", "settlements: noise")
    )
    return (
        f"Would have seen: a scale of noise off by {drawn} in the sampler, by {settled} in settlements;\n"
        "reports, releases and payments of its settlements that do not follow from what they may.\n"
        "Would have missed: smaller errors; faults that only other data show; from outside, less than ε = 1."
    )


def _verdict(audit: Audit) -> RenderableType:
    broken = [finding.name for finding in audit.findings if not finding.passed]
    if not broken:
        return Text(f"Passed: {len(audit.findings)} attacks, none broke a claim.", "bold green")
    return Text(
        f"FAILED: {'; '.join(broken)}. Do not settle real answers with this installation; report it privately, with\n"
        "the output of --json (see docs/security.md).",
        "bold red",
    )
