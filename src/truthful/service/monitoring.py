"""Monitoring for the operator: a health check, metrics that single nobody out, and the log.

Requests are counted by route. All participants' pages count as one route: counted separately, they would reveal when
somebody answered. Neither metrics nor log hold an address, a link, a name or a value.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import sqlite3
import sys
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, TypeGuard

import anyio.to_thread
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector
from sqlalchemy import text
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from truthful.errors import InputError
from truthful.service.limits import address
from truthful.service.locations import LOOPBACK, Settings
from truthful.store.database import Database, RolledBack

HEALTH, METRICS = "/health", "/metrics"
#: The variable of the token that remote readers of the metrics send as `Authorization: Bearer …`.
TOKEN, SHORTEST_TOKEN = "TRUTHFUL_METRICS_TOKEN", 16
#: The variable of the directory in which several processes share their metrics; prometheus-client reads it too.
METRICS_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
#: In seconds: the database's time to answer a health check, and how long its answer is cached.
PATIENCE, CACHE_SECONDS = 5.0, 1.0
#: The seconds between updates of a process's gauges.
GAUGE_SECONDS = 1.0
#: Headers that only a proxy sends: behind one, all requests seem to come from this machine.
FORWARDED = ("x-forwarded-for", "x-real-ip", "forwarded")

_REGISTRY = CollectorRegistry()
_REQUESTS = Counter("truthful_requests", "Requests answered.", ["route", "status"], registry=_REGISTRY)
_SECONDS = Histogram(
    "truthful_request_seconds", "Seconds until a request was answered.", ["route"], registry=_REGISTRY
)
_THREADS, _CONNECTIONS, _LEADS = (
    Gauge(name, told, registry=_REGISTRY, multiprocess_mode="livesum")
    for name, told in (
        ("truthful_threads_busy", "Threads that answer requests just now."),
        ("truthful_database_connections_busy", "Connections to the database in use just now."),
        ("truthful_settler_leads", "Processes that settle closed studies: one, if all is well."),
    )
)


class Settling(Protocol):
    """The settler of this process; `leads` if it is the one that settles."""

    leads: bool


class Running(Protocol):
    """The parts of a service that are monitored."""

    @property
    def settings(self) -> Settings: ...
    @property
    def database(self) -> Database: ...
    @property
    def settler(self) -> Settling: ...


@dataclass(eq=False)
class Monitoring:
    """Middleware that answers /health and /metrics for any host name, and counts all other requests."""

    app: ASGIApp
    token: str | None = field(default_factory=lambda: read_token(os.environ.get(TOKEN)))
    _well: tuple[float, bool] = (-CACHE_SECONDS, False)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif scope["path"] == HEALTH:
            await (await self._health(scope["app"].state.service.database))(scope, receive, send)
        elif scope["path"] == METRICS and self._may_read(Request(scope)):
            _note_use(scope["app"].state.service)
            await Response(read_metrics(), media_type=CONTENT_TYPE_LATEST)(scope, receive, send)
        else:
            await self._count(scope, receive, send)

    async def _count(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, status = time.perf_counter(), 500

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, note_status)
        finally:
            route = kind_of(scope)
            _REQUESTS.labels(route, str(status)).inc()
            _SECONDS.labels(route).observe(time.perf_counter() - began)

    async def _health(self, database: Database) -> Response:
        """Whether the database answers. Requests share one query at a time, so that nobody can overload it this way."""
        async with self._turn:
            if time.monotonic() - self._well[0] > CACHE_SECONDS:
                self._well = time.monotonic(), await reaches(database)
        well = self._well[1]
        return PlainTextResponse("ok\n" if well else "the database is away\n", 200 if well else 503)

    def _may_read(self, request: Request) -> bool:
        """Whether a request has the token or, if none is set, comes directly from this machine."""
        shown = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self.token is not None:
            return hmac.compare_digest(shown.encode(), self.token.encode())
        forwarded = any(name in request.headers for name in FORWARDED)
        return not forwarded and address(request, False) in LOOPBACK


def read_token(given: str | None) -> str | None:
    if given is not None and len(given) < SHORTEST_TOKEN:
        raise InputError(
            f"{TOKEN} has {len(given)} characters; give {SHORTEST_TOKEN} or more that nobody can guess, as "
            "`openssl rand -hex 16` prints, or leave it out."
        )
    return given


async def reaches(database: Database) -> bool:
    def ask() -> None:
        with database.reading() as session:
            session.execute(text("SELECT 1"))

    try:
        async with asyncio.timeout(PATIENCE):
            await run_in_threadpool(ask)
    except (SQLAlchemyError, TimeoutError):
        return False
    return True


def kind_of(scope: Scope) -> str:
    """The route that a request counts under: its path template, or one for all participants' pages."""
    for part in ("/a/", "/static/"):
        if scope["path"].startswith(part):
            return f"{part}…"
    return getattr(scope.get("route"), "path", "other")


@asynccontextmanager
async def gauges(service: Running) -> AsyncIterator[None]:
    """Keep this process's gauges up to date while the block runs: any process may be asked for those of all."""

    async def note() -> None:
        while True:
            _note_use(service)
            await asyncio.sleep(GAUGE_SECONDS)

    noting = asyncio.create_task(note())
    try:
        yield
    finally:
        noting.cancel()


def _note_use(service: Running) -> None:
    """Update the gauges of this process: busy threads, busy connections, and whether it settles."""
    _THREADS.set(anyio.to_thread.current_default_thread_limiter().borrowed_tokens)
    _CONNECTIONS.set(service.database.engine.pool.checkedout())  # type: ignore[attr-defined]
    _LEADS.set(service.settler.leads)


def read_metrics() -> bytes:
    """The metrics of this process, or of all processes that serve together."""
    if METRICS_DIRECTORY not in os.environ:
        return generate_latest(_REGISTRY)
    whole = CollectorRegistry()
    MultiProcessCollector(whole)  # type: ignore[no-untyped-call]
    return generate_latest(whole)


class Console(logging.Handler):
    """A handler that prints to the current sys.stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr, flush=True)


#: Loggers whose messages are constant sentences; values are in their arguments, which are not logged.
OWN_LOGGERS = ("truthful.", "uvicorn")


def _event(record: logging.LogRecord) -> str:
    """The message of a record; of other libraries only a notice, as their messages may quote values."""
    if record.name.startswith(OWN_LOGGERS):
        return str(record.msg)
    return f"{record.name} wrote something, which is withheld: it may quote a value."


class JsonLines(logging.Formatter):
    """One JSON object a line. Errors have their type and traceback only: messages may quote an answer or a link."""

    def format(self, record: logging.LogRecord) -> str:
        failed = record.exc_info[1] if record.exc_info else None
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": _event(record).strip(),
        }
        if failed is not None:
            frames = traceback.extract_tb(failed.__traceback__)
            fields["error"] = type(failed).__name__
            fields["where"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        return json.dumps(fields, ensure_ascii=False)


class PlainText(logging.Formatter):
    """The same content as plain text."""

    def format(self, record: logging.LogRecord) -> str:
        failed = record.exc_info[1] if record.exc_info else None
        if failed is None:
            return _event(record)
        return (
            f"{_event(record)}\n{''.join(traceback.format_tb(failed.__traceback__))}{type(failed).__name__}"
        )


FORMATS: dict[str, type[logging.Formatter]] = {"words": PlainText, "json": JsonLines}
LOG = logging.getLogger("truthful.service")
LOG.addHandler(Console())
LOG.setLevel(logging.INFO)
LOG.propagate = False


def write_log_as(form: str) -> dict[str, Any]:
    """Set this process's log format; the logging configuration that makes the web server use it too."""
    LOG.handlers[0].setFormatter(FORMATS[form]())
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"ours": {"()": FORMATS[form]}},
        "handlers": {"console": {"class": f"{__name__}.Console", "formatter": "ours"}},
        "loggers": {"uvicorn": {"handlers": ["console"], "propagate": False}},
        "root": {"handlers": ["console"], "level": "WARNING"},
    }


def complain(what: str, failed: Exception) -> None:
    """Log where something failed, without the error's message, which may quote an answer or a link."""
    if is_away(failed):
        LOG.error(f"{what} The database could not be reached ({type(failed.orig).__name__}).")
    elif isinstance(failed, RolledBack):
        LOG.error(f"{what} {failed}")
    else:
        LOG.error(what, exc_info=failed)


def is_away(failed: Exception) -> TypeGuard[OperationalError]:
    """Whether the database server could not be reached. SQLite has none to lose."""
    return isinstance(failed, OperationalError) and not isinstance(failed.orig, sqlite3.Error)


write_log_as("words")
