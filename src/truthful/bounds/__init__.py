"""The guarantees as functions of public numbers."""

from truthful.bounds import proved

__all__ = ["proved"]
