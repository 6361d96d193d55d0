"""Attack: the auditor looks for data, events and wiring that break the promises of a plan."""

from truthful.auditor.attack_surface import Audit, Finding, Product
from truthful.auditor.attacks import audit

__all__ = ["Audit", "Finding", "Product", "audit"]
