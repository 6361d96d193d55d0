"""Publish and verify: the public Release, a player's Receipt, and the Verdict on one payment."""

from typing import TYPE_CHECKING

from truthful.lazily import lazy_names

if TYPE_CHECKING:
    from truthful.release.publication import publish
    from truthful.release.release import Payment, Receipt, Release, find_receipt, read_receipt, read_release
    from truthful.release.verdict import Verdict, verify

__all__ = [
    "Payment",
    "Receipt",
    "Release",
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
        "release": ("Payment", "Receipt", "Release", "find_receipt", "read_receipt", "read_release"),
        "verdict": ("Verdict", "verify"),
    },
)
