"""An audit as a security engineer reads it in a terminal."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from truthful.auditor import Audit, Finding
from truthful.show import table


def audit_view(audit: Audit) -> list[RenderableType]:
    """One row for every attack, then the verdict and what to do."""
    grid = table("Attacks on what the plan promises", "check", "claim", "found", "confidence", "verdict")
    for finding in audit.findings:
        grid.add_row(
            Text(finding.name, "bold"), finding.claim, finding.found, finding.confidence, _mark(finding)
        )
    return [grid, _verdict(audit), _power(audit), f"Repeat it: --seed {audit.seed} --samples {audit.samples}"]


def _mark(finding: Finding) -> Text:
    if finding.informational:
        return Text("not protected", "yellow")
    return Text("stands", "green") if finding.passed else Text("BROKEN", "bold red")


def _power(audit: Audit) -> str:
    """What such an audit sees, and what it misses, in a few lines."""
    figures = {finding.name: finding.figures for finding in audit.findings}
    caught = {
        name: f"{found['scale_error_caught']:.0%}"
        for name, found in figures.items()
        if "scale_error_caught" in found
    }
    sampler, settled = caught.get("noise", "any size"), caught.get("settlements: noise")
    seen = f"Would have seen: a scale of noise off by {sampler} in the sampler"
    if settled is None:
        return (
            f"{seen}.\n"
            "Would have missed: smaller errors; faults in settlements, of which none was made; faults that\n"
            "only other data show; from outside, less than ε = 1."
        )
    return (
        f"{seen}, by {settled} in settlements;\n"
        "reports, releases and payments of its settlements that do not follow from what they may.\n"
        "Would have missed: smaller errors; faults that only other data show; from outside, less than ε = 1."
    )


def _verdict(audit: Audit) -> RenderableType:
    broken = [finding.name for finding in audit.findings if not finding.passed]
    if broken:
        return Text(
            f"FAILED: {'; '.join(broken)}. Do not settle real answers with this installation; report it privately,\n"
            "with the output of --json (see docs/security.md).",
            "bold red",
        )
    attacks = sum(not finding.informational for finding in audit.findings)
    exposed = [finding.name for finding in audit.findings if finding.informational]
    but = f", not {', '.join(exposed)}" if exposed else ""
    words = f"Passed: {attacks} attacks, none broke a claim. The plan protects {audit.protects}{but}."
    return Text(words, "bold green")
