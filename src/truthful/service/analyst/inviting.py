"""Inviting people without a file of links: by mail, with reminders, or through a recruiting panel."""

from __future__ import annotations

import re
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends
from starlette.responses import Response

from truthful.errors import Refused
from truthful.service.analyst.study_pages import RENEWED, Found, Sent, find, text
from truthful.service.mailer import LINK
from truthful.service.pages import Texts, go, language, languages
from truthful.service.signing import Analyst, SignedIn
from truthful.store import mails, studies
from truthful.store.audit_log import log
from truthful.store.studies import NotNow
from truthful.store.tables import State, StoredStudy

router = APIRouter()
LETTERS = ("invitation", "reminder")
#: The form of completion codes: Prolific's are eight letters and digits.
CODE = re.compile(r"[A-Za-z0-9_-]{1,64}")
LONGEST_URL = 500


def find_open(visit: Analyst, study_id: str) -> StoredStudy:
    """A study that is open; NotNow if it is not."""
    stored = find(visit, study_id)
    if stored.state != State.OPEN:
        raise NotNow(f"The study is {stored.state}; mails are sent only while people can answer.")
    return stored


Open = Annotated[StoredStudy, Depends(find_open)]


@router.get("/studies/{study_id}/mail")
def mail_page(visit: Analyst, stored: Open) -> Response:
    return _mail_page(visit, stored)


def _mail_page(
    visit: SignedIn,
    stored: StoredStudy,
    wrong: dict[str, str] | None = None,
    typed: dict[str, str] | None = None,
) -> Response:
    """The texts and the progress of mails. Only invitations count: of reminders, even that one waits would say that
    somebody has not answered.
    """
    mailer = visit.service.mailer
    with visit.reading() as session:
        progress, failed = mails.progress(session, stored.id), mails.problems(session, stored.id)
    shown = visit.page(
        "analyst/mail.html",
        status=400 if wrong else 200,
        stored=stored,
        possible=mailer is not None,
        problem=mailer and progress["waiting"] and mailer.problem,
        progress=progress,
        failed=failed,
        letters=LETTERS,
        typed=typed or stored.mail or _usual_texts(visit, stored),
        wrong=wrong or {},
    )
    if not wrong and progress["waiting"]:
        shown.headers["Refresh"] = RENEWED
    return shown


def _usual_texts(visit: SignedIn, stored: StoredStudy) -> dict[str, str]:
    """Default texts in every language, with what the study says in it."""
    study = visit.plan(stored.id).study

    def usual(kind: str, name: str, texts: Texts) -> str:
        told = study.in_language(name)
        asked_by = told.invitation.asked_by if told.invitation else ""
        return texts(f"analyst.mail.usual_{kind}", study=told.title, asked_by=asked_by, link=LINK)

    written = {}
    for kind in LETTERS:
        written[f"{kind}_subject"] = usual(f"{kind}_subject", visit.locale.language, language(visit.request))
        written |= {f"{kind}_{name}": usual(kind, name, texts) for name, texts in languages().items()}
    return written


def _wrong_texts(typed: dict[str, str]) -> dict[str, str]:
    wrong = {f"{kind}_subject": "missing" for kind in LETTERS if not typed[f"{kind}_subject"]}
    for kind in LETTERS:
        bodies = {f"{kind}_{name}": typed[f"{kind}_{name}"] for name in languages()}
        if not any(bodies.values()):
            wrong[next(iter(bodies))] = "missing"
        wrong |= {name: "no_link" for name, words in bodies.items() if words and LINK not in words}
    return wrong


@router.post("/studies/{study_id}/mail")
def send_mail(visit: Analyst, stored: Open, sent: Sent) -> Response:
    """Store the texts, and send invitations or reminders in the background."""
    mailer, pressed = visit.service.mailer, text(sent, "do")
    if mailer is None:
        raise Refused(
            "This service sends no mail. Ask the operator to start it with --smtp, or download the links."
        )
    typed = {
        f"{kind}_{name}": text(sent, f"{kind}_{name}")
        for kind in LETTERS
        for name in ("subject", *languages())
    }
    if wrong := _wrong_texts(typed):
        return _mail_page(visit, stored, wrong, typed)
    key = visit.service.locations.links_key(stored.id)
    with visit.writing() as session:
        studies.find(session, stored.id).mail = typed
        if pressed == "invite":
            mails.invite(session, stored.id, visit.who, key)
        elif pressed == "remind":
            mails.remind(session, stored.id, visit.who)
    mailer.ask()
    return go(f"/studies/{stored.id}/mail")


@router.get("/studies/{study_id}/panel")
def panel_page(visit: Analyst, stored: Found) -> Response:
    return _panel_page(visit, stored, stored.panel or {})


def _panel_page(
    visit: SignedIn, stored: StoredStudy, typed: dict[str, Any], wrong: dict[str, str] | None = None
) -> Response:
    entry = f"{visit.service.settings.origin}/s/{stored.id}/enter"
    return visit.page(
        "analyst/panel.html",
        status=400 if wrong else 200,
        stored=stored,
        entry=entry,
        typed=typed,
        wrong=wrong or {},
    )


@router.post("/studies/{study_id}/panel")
def change_panel(visit: Analyst, stored: Found, sent: Sent) -> Response:
    """Change how people return to their panel after answering: the same for everybody."""
    typed = {name: text(sent, name) for name in ("return_url", "completion_code")}
    wrong = {}
    if typed["return_url"] and not _is_https(typed["return_url"]):
        wrong["return_url"] = "https"
    if typed["completion_code"] and not CODE.fullmatch(typed["completion_code"]):
        wrong["completion_code"] = "code"
    if wrong:
        return _panel_page(visit, stored, typed, wrong)
    with visit.writing() as session:
        kept = studies.find(session, stored.id, lock=True)
        if kept.state not in (State.DRAFT, State.OPEN):
            raise NotNow(f"The study is {kept.state}; nobody comes to it any more.")
        kept.panel = None if text(sent, "do") == "remove" else typed
        log(session, visit.who, "changed how people come from a panel", stored.id)
    return go(f"/studies/{stored.id}/panel")


def _is_https(url: str) -> bool:
    """Whether a text is an https URL that browsers may be redirected to."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    plain = url.isascii() and url.isprintable() and " " not in url and len(url) <= LONGEST_URL
    return plain and parts.scheme == "https" and bool(parts.hostname) and "@" not in parts.netloc
