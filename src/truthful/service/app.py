"""The service as one application: its pages, its middleware, and its background threads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DataError, OperationalError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from truthful.errors import InputError, Refused
from truthful.service import account, analyst, participant, payer, public, signing
from truthful.service.limits import Busy, Limits
from truthful.service.locations import FilesMissing, Settings
from truthful.service.mailer import Mailer
from truthful.service.middleware import NoDetails, OwnSite, SafeHeaders, SmallBodies, limit_guesses, wait
from truthful.service.monitoring import LOG, Monitoring, complain, gauges, is_away
from truthful.service.pages import Service, TurnedAway, Visit, go, page
from truthful.service.settle_study import Settler, Unready
from truthful.service.signing import SignInFirst, signed_in
from truthful.store.database import Database, Unreachable
from truthful.store.seals import Unreadable
from truthful.store.studies import Unknown
from truthful.store.tables import Role
from truthful.version import __version__

#: The time that a database has to come back while a process starts.
REACHED_SECONDS = 60.0
#: The pause before a retry that a busy service suggests.
RETRY_SECONDS = 5


def create_app(settings: Settings) -> FastAPI:
    """Create the application. At its start it opens the database and settles closed studies."""
    # The interactive API page would load scripts from elsewhere, which our policy forbids.
    app = FastAPI(
        title="truthful",
        version=__version__,
        openapi_url="/openapi.json" if settings.api_docs else None,
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
    )
    app.state.settings = settings
    # Participants send most requests, so their routes come first; `include_router` would match each route twice.
    for part in (participant, public, signing, account, analyst, payer):
        app.router.routes += part.router.routes
    if settings.oidc is not None:
        from truthful.service import openid  # needs optional packages

        app.state.openid = openid.OpenId(settings.oidc, settings.origin)
        app.router.routes += openid.router.routes
    app.mount("/static", StaticFiles(packages=[("truthful.service", "static")]), "static")
    _handle_errors(app)
    # The last one added is the outermost, so that refusals have the security headers too.
    app.add_middleware(
        SmallBodies, may_send_roster=lambda scope: run_in_threadpool(_is_analyst, Request(scope))
    )
    app.add_middleware(OwnSite, hosts=settings.hosts, origin=settings.origin)
    app.add_middleware(NoDetails)
    app.add_middleware(Monitoring)
    app.add_middleware(SafeHeaders, secure=settings.secure)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    settings: Settings = app.state.settings
    settings.locations.make()
    database = await _reached(settings)
    settler = Settler(database, settings.locations)
    mailer = Mailer(database, settings) if settings.smtp is not None else None
    app.state.service = service = Service(
        settings, database, settler, mailer, Limits(processes=settings.processes)
    )
    settler.start()
    if mailer is not None:
        mailer.start()
    async with gauges(service):
        yield
    service.pools.close()
    if mailer is not None:
        await run_in_threadpool(mailer.stop)
    await run_in_threadpool(settler.stop)
    database.close()


async def _reached(settings: Settings) -> Database:
    """The database. One of several processes that is replaced while the database is away waits for it."""
    until = time.monotonic() + (REACHED_SECONDS if settings.processes > 1 else 0.0)
    while True:
        try:
            return settings.open_database()
        except Unreachable:
            if time.monotonic() > until:
                raise
        await asyncio.sleep(1)


def _is_analyst(request: Request) -> bool:
    """Whether a request comes from an analyst's browser."""
    try:
        return signed_in(Visit(request, request.app.state.service)).account.role == Role.ANALYST
    except SignInFirst:
        return False


def _handle_errors(app: FastAPI) -> None:
    """Turn errors into pages that say what to do. Cases that strangers must not distinguish look the same."""

    def show(error: type[Exception], template: str, status: int, told: bool = False) -> None:
        def answer(request: Request, problem: Exception) -> Response:
            way = problem if isinstance(problem, Unready) else None
            shown = page(
                request, template, status=status, problem=str(problem) if told else None, told=told, way=way
            )
            return limit_guesses(request, shown) if status == 404 else shown

        app.add_exception_handler(error, answer)

    show(Unknown, "nothing.html", 404)
    show(RequestValidationError, "problem.html", 422)
    show(DataError, "problem.html", 422)  # a value that the database cannot hold
    show(InputError, "problem.html", 400, told=True)
    show(Refused, "problem.html", 409, told=True)

    @app.exception_handler(Busy)
    async def busy(request: Request, problem: Busy) -> Response:
        """Ask to retry; asynchronous, so that it takes no thread."""
        return wait(request, RETRY_SECONDS, problem.status, "shared.busy")

    @app.exception_handler(OperationalError)
    async def database_away(request: Request, problem: OperationalError) -> Response:
        """Log one line and ask to retry: a database server that restarts is no error of ours."""
        if not is_away(problem):
            raise problem
        complain("A page failed.", problem)
        return wait(request, RETRY_SECONDS, 503, "shared.away")

    @app.exception_handler(SignInFirst)
    def sign_in_first(request: Request, problem: SignInFirst) -> Response:
        return go(problem.page)

    @app.exception_handler(HTTPException)
    def refused_by_the_frame(request: Request, problem: HTTPException) -> Response:
        if isinstance(problem, TurnedAway):
            return problem.page(request)
        shown = page(request, "nothing.html", status=problem.status_code)
        shown.headers.update(problem.headers or {})
        return limit_guesses(request, shown) if problem.status_code == 404 else shown

    @app.exception_handler(Unreadable)
    @app.exception_handler(FilesMissing)
    def files_missing(request: Request, problem: FilesMissing | Unreadable) -> Response:
        """Show the problem to analysts only: participants cannot help it, and must not see the server's paths."""
        LOG.error(str(problem))
        if _is_analyst(request):
            return page(request, "problem.html", status=409, problem=str(problem), told=True)
        return page(request, "broken.html", status=503)
