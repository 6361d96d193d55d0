"""The public report of a settlement, and that of a simulation: pages that need nothing but themselves."""

from typing import TYPE_CHECKING

from truthful.lazily import lazy_names

if TYPE_CHECKING:
    from truthful.report.settlement_page import report, report_or_notice
    from truthful.report.simulation_page import simulation_report

__all__ = ["report", "report_or_notice", "simulation_report"]

__getattr__ = lazy_names(
    __name__,
    {"settlement_page": ("report", "report_or_notice"), "simulation_page": ("simulation_report",)},
)
