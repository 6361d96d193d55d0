"""Publish and verify: the public Release, a player's Receipt, and the Verdict on one payment."""

from typing import TYPE_CHECKING

from truthful.lazily import lazy_names

if TYPE_CHECKING:
    from truthful.release.publication import publish
    from truthful.release.receipts import AnyReceipt, AnyRelease, find_receipt, read_receipt, read_release
    from truthful.release.release import Payment, Receipt, Release
    from truthful.release.release_of_halves import ReceiptOfHalves, ReleaseOfHalves
    from truthful.release.verdict import Verdict, verify

__all__ = [
    "AnyReceipt",
    "AnyRelease",
    "Payment",
    "Receipt",
    "ReceiptOfHalves",
    "Release",
    "ReleaseOfHalves",
    "Verdict",
    "find_receipt",
    "publish",
    "read_receipt",
    "read_release",
    "verify",
]

__getattr__ = lazy_names(
    __name__,
    {
        "publication": ("publish",),
        "receipts": ("AnyReceipt", "AnyRelease", "find_receipt", "read_receipt", "read_release"),
        "release": ("Payment", "Receipt", "Release"),
        "release_of_halves": ("ReceiptOfHalves", "ReleaseOfHalves"),
        "verdict": ("Verdict", "verify"),
    },
)
