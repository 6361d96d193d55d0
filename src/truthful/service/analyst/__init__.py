"""The analyst's pages: from an empty draft to published results. She sees counts and the release, never an answer."""

from fastapi import APIRouter

from truthful.service.analyst import inviting, plan_pages, study_pages, wizard

router = APIRouter()
for _part in (wizard, study_pages, plan_pages, inviting):
    router.include_router(_part.router)
