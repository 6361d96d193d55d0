"""Every number on the way to one payment, whichever format its release has."""

from __future__ import annotations

from truthful.errors import InputError
from truthful.release.halves import ReceiptOfHalves, ReleaseOfHalves
from truthful.release.recomputed import Steps as Steps
from truthful.release.recomputed import recomputed
from truthful.release.records import Receipt, Release


def steps(release: Release | ReleaseOfHalves, receipt: Receipt | ReceiptOfHalves) -> Steps:
    """Compute one payment again. The own prediction is integrated directly, never read from a table."""
    if isinstance(release, ReleaseOfHalves) and isinstance(receipt, ReceiptOfHalves):
        from truthful.release.of_halves import halves_steps

        return halves_steps(release, receipt)
    if isinstance(release, Release) and isinstance(receipt, Receipt):
        return recomputed(release, receipt)
    raise InputError(
        f"The release has format {release.format!r} and the receipt {receipt.format!r}: they do not belong together."
    )
