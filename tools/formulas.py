"""Formulas of the site: a ```math block in LaTeX is MathML on the page that is built, and browsers need no script."""

from __future__ import annotations

from typing import Any

from latex2mathml.converter import convert


def on_config(config: Any) -> Any:
    """Called by MkDocs: such blocks are ours."""
    fence = {"name": "math", "class": "math", "format": mathml}
    config["mdx_configs"].setdefault("pymdownx.superfences", {})["custom_fences"] = [fence]
    return config


def mathml(source: str, language: str, css_class: str, options: Any, md: Any, **_: Any) -> str:
    """A display formula."""
    return f'<div class="{css_class}">{convert(source.strip(), display="block")}</div>'
