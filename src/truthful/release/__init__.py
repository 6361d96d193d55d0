"""Publish and verify: the public Release, a player's Receipt, and the Verdict on one payment."""

from truthful.release.publication import publish
from truthful.release.receipts import find_receipt, read_receipt
from truthful.release.records import Payment, Receipt, Release
from truthful.release.verdict import Verdict, verify

__all__ = [
    "Payment",
    "Receipt",
    "Release",
    "Verdict",
    "find_receipt",
    "publish",
    "read_receipt",
    "verify",
]
