"""Every page of a participant, each behind a link of its own."""

from __future__ import annotations

from typing import Any

from support.serving import ANSWERS, RECORDS, STUDY, WHO, Asked, answer_all, asked, close
from truthful.service.pages import Service
from truthful.service.settle_study import cancel_study, settle_study
from truthful.store import answers, studies
from truthful.store.tables import State

QUESTION = 'question = "How much did you spend on groceries last week, in dollars?"'
HIDDEN = '[privacy]\nprotects = "answers"\npublish_matrix = false'
ASKING = STUDY.replace('name = "spend"', f'name = "spend"\n{QUESTION}')


def pages(service: Service, text: str = ASKING) -> dict[str, str]:
    """Where each page is found."""
    waiting = asked(service, text)
    invited, disputed, consented, answered = list(waiting.links.values())[:4]
    with service.database.writing() as session:
        answers.dispute(session, disputed, wrong=True)
        answers.consent(session, consented)
        answers.submit(session, answered, 62.5, answers.consent(session, answered))
    rehearsed = asked(service, text, rehearsal=True)
    return {
        "invited": f"/a/{invited}",
        **{
            f"invited, {what} protected": f"/a/{next(iter(asked(service, other).links.values()))}"
            for what, other in (("answers", ANSWERS), ("records", RECORDS))
        },
        "rehearsal": f"/a/{next(iter(rehearsed.links.values()))}",
        "disputed": f"/a/{disputed}",
        "question": f"/a/{consented}",
        "answered": f"/a/{answered}",
        "withdraw": f"/a/{answered}/withdraw",
        **_closed(service, text),
        "paid": _paid(service, text, published=False),
        "published": _paid(service, text, published=True),
        "paid, sums kept back": _paid(service, text.replace("[beliefs]", f"{HIDDEN}\n[beliefs]")),
        "cancelled": _cancelled(service, text),
    }


def settled(service: Service, text: str = ASKING, *, published: bool = False, **parameters: Any) -> Asked:
    """A study that everybody answered, settled."""
    study = asked(service, text, **parameters)
    answer_all(service, study)
    close(service, study.study_id)
    settle_study(service.database, service.locations, study.study_id)
    if published:
        with service.database.writing() as session:
            studies.step(session, study.study_id, State.PUBLISHED, WHO)
    return study


def _closed(service: Service, text: str) -> dict[str, str]:
    study = asked(service, text)
    silent, spoken, other = list(study.links.values())[:3]
    with service.database.writing() as session:
        answers.consent(session, silent)
        answers.submit(session, spoken, 62.5, answers.consent(session, spoken))
    close(service, study.study_id)
    return {
        "closed": f"/a/{silent}",
        "closed after an answer": f"/a/{spoken}",
        "closed, another browser": f"/a/{other}",
    }


def _paid(service: Service, text: str, **settings: Any) -> str:
    return f"/a/{next(iter(settled(service, text, **settings).links.values()))}"


def _cancelled(service: Service, text: str) -> str:
    study = asked(service, text)
    answer_all(service, study)
    close(service, study.study_id)
    cancel_study(service.database, service.locations, study.study_id, WHO)
    return f"/a/{next(iter(study.links.values()))}"
