"""Settle: the private release, everybody's payment, and the books."""

from truthful.settlement.atomic_release import Progress, Settlement
from truthful.settlement.settlement import settle

__all__ = ["Progress", "Settlement", "settle"]
