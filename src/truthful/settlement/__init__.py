"""Settle: the private release, everybody's payment, and the books; and a preview of reports."""

from truthful.settlement.atomic_release import Progress, Settlement
from truthful.settlement.books import read_bill
from truthful.settlement.previews import Preview, preview
from truthful.settlement.settlement import settle

__all__ = ["Preview", "Progress", "Settlement", "preview", "read_bill", "settle"]
