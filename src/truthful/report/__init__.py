"""The public report of a settlement, and that of a simulation: pages that need nothing but themselves."""

from truthful.report.notice import report_or_notice
from truthful.report.page import report
from truthful.report.simulation_page import simulation_report

__all__ = ["report", "report_or_notice", "simulation_report"]
