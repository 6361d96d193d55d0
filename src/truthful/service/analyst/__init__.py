"""The analyst's pages: from an empty draft to published results. She sees counts and the release, never an answer."""

from fastapi import APIRouter

from truthful.service.analyst import (
    closing,
    collecting,
    files,
    freezing,
    planning,
    rehearsing,
    studies,
    wizard,
)

router = APIRouter()
for _part in (studies, files, wizard, planning, rehearsing, freezing, collecting, closing):
    router.include_router(_part.router)

__all__ = ["router"]
