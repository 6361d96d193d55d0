"""What every page has at hand: the running service, the reader's language, and a way to show a template."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

from fastapi import Depends
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse

from truthful.service import formats
from truthful.service.catalogue import Texts, chosen, languages
from truthful.service.limits import Limits
from truthful.service.places import Places
from truthful.service.settings import Settings
from truthful.service.settling import Settler
from truthful.store.database import Database
from truthful.version import __version__

LANGUAGE = "language"
"""The cookie of a chosen language."""

_TEMPLATES = Environment(
    loader=PackageLoader("truthful.service"),
    autoescape=select_autoescape(default=True, default_for_string=True),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True, eq=False)
class Service:
    """A running service."""

    settings: Settings
    database: Database
    settler: Settler
    limits: Limits = field(default_factory=Limits)

    @property
    def places(self) -> Places:
        return self.settings.places


async def running(request: Request) -> Service:
    """The service that a request has come to."""
    service: Service = request.app.state.service
    return service


async def _language(request: Request) -> Texts:
    return language(request)


def language(request: Request) -> Texts:
    """The words of the reader's language."""
    return chosen(request.cookies.get(LANGUAGE), request.headers.get("accept-language", ""))


#: For the arguments of a page's function. They are asynchronous because they wait for nothing: no thread is needed.
Running = Annotated[Service, Depends(running)]
Language = Annotated[Texts, Depends(_language)]


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """A template as a page in the reader's language. `t` in it gives texts; values are escaped."""
    texts = language(request)
    shown = _TEMPLATES.get_template(template).render(
        t=texts,
        language=texts.language,
        languages=languages(),
        version=__version__,
        path=request.url.path,
        money=partial(formats.money, locale=texts.locale),
        number=partial(formats.number, locale=texts.locale),
        percent=partial(formats.percent, locale=texts.locale),
        moment=partial(formats.moment, locale=texts.locale),
        **{"account": None, **values},
    )
    return HTMLResponse(shown, status, headers={"Vary": "Accept-Language, Cookie"})


class TurnedAway(HTTPException):
    """A request that no page gets to see; `key` is the text that says why."""

    def __init__(self, status: int, key: str, **values: Any) -> None:
        super().__init__(status)
        self._key, self._values = key, values

    def page(self, request: Request) -> HTMLResponse:
        problem = language(request)(self._key, **self._values)
        return page(request, "problem.html", status=self.status_code, problem=problem)


def go(path: str) -> RedirectResponse:
    """After a form: show that page. A reload then sends nothing again."""
    return RedirectResponse(path, 303)
