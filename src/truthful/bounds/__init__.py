"""The guarantees as functions of public numbers: `published`, as the paper has them, and `proved`, as they hold."""

from truthful.bounds import proved, published
from truthful.bounds.setting import Model, Setting, unit_ball

__all__ = ["Model", "Setting", "proved", "published", "unit_ball"]
