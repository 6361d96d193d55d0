"""Bounds as functions of public numbers: `published`, as in the paper, and `proved`, which hold."""

from truthful.bounds import proved, published
from truthful.bounds.setting import Model, Setting, unit_ball

__all__ = ["Model", "Setting", "proved", "published", "unit_ball"]
