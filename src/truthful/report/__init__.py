"""The public report of a settlement, and that of a simulation: pages that need nothing but themselves."""

from typing import TYPE_CHECKING

from truthful.lazily import lazy_names

if TYPE_CHECKING:
    from truthful.report.notice import report_or_notice
    from truthful.report.page import report
    from truthful.report.simulation_page import simulation_report

__all__ = ["report", "report_or_notice", "simulation_report"]

__getattr__ = lazy_names(
    __name__,
    {
        "notice": ("report_or_notice",),
        "page": ("report",),
        "simulation_page": ("simulation_report",),
    },
)
