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
    return [grid, _verdict(audit), f"Repeat it: --seed {audit.seed} --samples {audit.samples}"]


def _verdict(audit: Audit) -> RenderableType:
    broken = [finding.name for finding in audit.findings if not finding.passed]
    if not broken:
        return Text(f"Passed: {len(audit.findings)} attacks, none broke a claim.", "bold green")
    return Text(
        f"FAILED: {'; '.join(broken)}. Do not settle real answers with this installation; report it privately, with\n"
        "the output of --json (see docs/security.md).",
        "bold red",
    )
