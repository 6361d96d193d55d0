"""The public report of a settlement, as a page that needs nothing but itself."""

from truthful.report.notice import report_or_notice
from truthful.report.page import report

__all__ = ["report", "report_or_notice"]
