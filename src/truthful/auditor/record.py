"""What an audit leaves: one finding for every attack, and a verdict."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

FORMAT = "truthful/audit/2"


@dataclass(frozen=True)
class Finding:
    """One attack: what was claimed, what was found, how surely, and whether the claim stands.

    figures are the numbers behind the words, for machines. A finding that is informational shows what a plan does not
    protect: no claim is broken by it.
    """

    name: str
    claim: str
    found: str
    confidence: str
    passed: bool
    figures: dict[str, float] = field(default_factory=dict)
    informational: bool = False


@dataclass(frozen=True)
class Audit:
    """All findings on one plan. The same seed repeats the same attack."""

    plan_sha256: str
    protects: str
    epsilon: float
    samples: int
    seed: int
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether every claim stands."""
        return all(finding.passed for finding in self.findings)

    def record(self) -> dict[str, Any]:
        """The audit as JSON has it."""
        return {"format": FORMAT, "passed": self.passed, **asdict(self)}
