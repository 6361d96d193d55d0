"""Answers that are no pages of ours: files to keep, and pictures and reports that bring their own style."""

from __future__ import annotations

from starlette.responses import Response

#: Their style and nothing else: no script, no other file, no form, no frame.
STYLED = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
HTML, SVG, CSV, TEXT, JSON, TOML = (
    "text/html",
    "image/svg+xml",
    "text/csv",
    "text/plain",
    "application/json",
    "application/toml; charset=utf-8",
)


def download(content: str | bytes, kind: str, name: str) -> Response:
    """A file to keep."""
    return Response(
        content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


def styled(content: str | bytes, kind: str) -> Response:
    """A picture or a report, shown as it is."""
    return Response(content, media_type=kind, headers={"Content-Security-Policy": STYLED})
