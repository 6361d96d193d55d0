"""Settle: two passes over the reports, one draw of noise, and books written whole or not at all."""

from truthful.settlement.settlement import Progress, Settlement, settle

__all__ = ["Progress", "Settlement", "settle"]
