"""Attack: the auditor looks for data, events and wiring that break what a plan promises."""

from truthful.auditor.checks import audit
from truthful.auditor.product import Product, Truthful
from truthful.auditor.record import Audit, Finding

__all__ = ["Audit", "Finding", "Product", "Truthful", "audit"]
