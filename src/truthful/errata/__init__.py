"""The errata of the paper, as code: each computes its claim and what holds, on one example."""

from truthful.errata.collection import errata, find
from truthful.errata.record import Erratum

__all__ = ["Erratum", "errata", "find"]
