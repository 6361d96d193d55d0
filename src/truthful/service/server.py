"""`truthful serve`: prepare a directory and its database, print sign-in links, and serve until Ctrl-C."""

from __future__ import annotations

import errno
import os
import signal
import socket
import tempfile
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import parent_process
from multiprocessing.connection import wait
from types import FrameType
from urllib.parse import urlsplit

import numpy as np
import uvicorn
from fastapi import FastAPI
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.supervisors import Multiprocess

from truthful.errors import InputError, Refused
from truthful.files import exclusive, pretty_json
from truthful.formatting import command
from truthful.people import invent
from truthful.plan import Plan, design
from truthful.service.app import create_app
from truthful.service.locations import LOOPBACK, Locations, Settings
from truthful.service.monitoring import LOG, METRICS_DIRECTORY, TOKEN, read_token, write_log_as
from truthful.service.processors import keep_to_share
from truthful.service.rehearsal import demo_study
from truthful.service.settle_study import freeze
from truthful.store import accounts, answers, roster, studies
from truthful.store.answers import OpenedAnswer
from truthful.store.audit_log import OPERATOR
from truthful.store.database import Database
from truthful.store.tables import Role
from truthful.study import Study
from truthful.study.declaration import PLAYER


@dataclass(frozen=True)
class Opening:
    """The addresses of a started service, and links that are shown only once."""

    url: str
    directory: str
    database: str
    sign_in_link: str | None
    payer_link: str | None = None
    participant_link: str | None = None
    public_page: str | None = None

    def words(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"The service answers at {self.url}. Ctrl-C stops it."
        subject = "It is new, and" if self.sign_in_link is not None else "It"
        yield f"{subject} keeps studies and ledgers in {self.directory}, answers in {self.database}."
        if self.url.startswith("http:") and urlsplit(self.url).hostname not in LOOPBACK:
            yield (
                "Warning: without TLS, answers and passwords can be read on the way. Put a proxy with TLS in "
                "front, and give its address: --url https://…"
            )
        if self.sign_in_link is not None:
            yield f"\nThe analyst signs in with this link, once, within a week:\n  {self.sign_in_link}"
        else:
            yield f"\nSign in there. Who can: {command('account', 'list', self.directory)}"
            yield f"A new link for whoever cannot: {command('account', 'link', self.directory, 'NAME')}"
        if self.payer_link is not None:
            yield f"\nWhoever pays in the demo signs in with this one:\n  {self.payer_link}"
        if self.participant_link is not None:
            yield f"\nA demo study is open. Answer as one of its invented people:\n  {self.participant_link}"
            yield f"Its public page:\n  {self.public_page}"
            yield "Then sign in as the analyst, close the study and see it settled; as the payer, see what it pays."


#: The actor of the demo in the audit log, and the payer that its study names.
DEMO, DEMO_PAYER = "demo", "Accounts office"
PLAYERS, BUDGET, ANSWERING = 2_000, 10_000.0, 0.9
#: How many of them have not answered yet, so that their links can be tried.
TO_ANSWER = 100


@dataclass(frozen=True)
class MadeDemo:
    """The demo's study, and the tokens of two links: its payer's, and that of a player who has not answered yet."""

    study_id: str
    payer: str
    participant: str


def make_demo(database: Database, locations: Locations) -> MadeDemo | None:
    """Create the demo's study for the first analyst, if the service has no study; None if it has."""
    with database.reading() as session:
        if studies.list_studies(session):
            return None
    text = demo_study(DEMO_PAYER)
    study = Study.parse(text)
    plan = design(study, players=PLAYERS, budget=BUDGET, response_share=ANSWERING)
    with database.writing() as session:
        everybody = accounts.accounts(session)
        owner = next((account for account in everybody if account.role == Role.ANALYST), None)
        stored = studies.create(session, DEMO, tomllib.loads(text), owner)
        payer = accounts.account(session, DEMO_PAYER, Role.PAYER, DEMO)
        link = accounts.new_link(session, payer, DEMO)
        stored.declaration, stored.plan = text, pretty_json(plan.record())
        study_id = stored.id
    freeze(database, locations, study_id, DEMO, rehearsal=True)
    return MadeDemo(study_id, link, _collect(database, study_id, plan))


def _collect(database: Database, study_id: str, plan: Plan) -> str:
    """Put invented people on the roster and let most of them answer; the link of the last, who has not."""
    rows = invent(plan.study, PLAYERS, np.random.default_rng()).reports.to_pylist()
    response = plan.study.response.name
    reported = {row[PLAYER]: row.pop(response) for row in rows}
    people = {row.pop(PLAYER): row for row in rows}
    with database.writing() as session:
        roster.add(session, study_id, DEMO, people, plan.players)
        links = roster.invite(session, study_id, DEMO)
        answered = {player: OpenedAnswer(reported[player], None) for player, _ in links[:-TO_ANSWER]}
        answers.collect(session, study_id, answered)
    return links[-1][1]


ANYWHERE = ("0.0.0.0", "::", "")
STOPPING = (
    "\nStopping: answers under way are kept, and a settlement under way is finished first. To leave at once, press "
    "Ctrl-C again: it goes on where it was at the next start."
)


def serve(
    settings: Settings,
    *,
    host: str,
    port: int,
    analyst: str,
    demo: bool,
    tell: Callable[[Opening], None],
    workers: int = 1,
) -> None:
    """Prepare a directory and its database, print sign-in links, and serve until Ctrl-C.

    A directory has one server, of one or several processes.
    """
    _require_room(settings, workers)
    settings.require_owner()
    read_token(os.environ.get(TOKEN))  # an invalid one is refused now
    with _private_files(), exclusive(settings.locations.make()) as alone:
        if not alone:
            link = command("account", "link", settings.directory, analyst)
            raise Refused(
                f"Another server is running with {str(settings.directory)!r}. Stop it first, or start this one with "
                f"another directory. (A new sign-in link can be made while it runs: {link})"
            )
        with listen(host, port) as listener:
            if port == 0:
                settings = replace(settings, url=settings.url.replace(":0", f":{listener.getsockname()[1]}"))
            tell(prepare(settings, analyst=analyst, demo=demo))
            _run(settings, listener, workers)


def _require_room(settings: Settings, workers: int) -> None:
    """Refuse several processes on SQLite: it has one writer at a time, and only threads can share its commits."""
    if workers < 1:
        raise InputError(f"workers is {workers}; give 1 or more.")
    if workers > 1 and settings.database_url.startswith("sqlite"):
        raise InputError(
            f"workers is {workers}, but SQLite has one writer at a time, so more processes would only wait for each "
            "other. Name a PostgreSQL database with --database, or leave --workers at 1."
        )


def prepare(settings: Settings, *, analyst: str, demo: bool) -> Opening:
    """Create the tables, the analyst's account and link, and the demo's study, as far as missing and asked for."""
    settings.locations.logo()  # an invalid file is refused now
    with closing(settings.open_database()) as database:
        _warn_of_unknown_studies(database, settings.locations)
        link, home = _first_link(database, settings, analyst), settings.origin
        made = make_demo(database, settings.locations) if demo else None
        return Opening(
            home,
            str(settings.directory.resolve()),
            database.shown,
            link,
            None if made is None else f"{home}/welcome/{made.payer}",
            None if made is None else f"{home}/a/{made.participant}",
            None if made is None else f"{home}/s/{made.study_id}",
        )


def _warn_of_unknown_studies(database: Database, locations: Locations) -> None:
    """Tell the operator of frozen studies that the database does not have: it may be another one, or an older one."""
    with database.reading() as session:
        known = {stored.id for stored in studies.list_studies(session)}
    if unknown := [study_id for study_id in locations.frozen() if study_id not in known]:
        LOG.error(
            f"Studies {', '.join(unknown)} are frozen in {str(locations.studies)!r}, and the database {database.shown} "
            "does not have them: links to them lead nowhere. If it is the wrong one, stop and name the right one."
        )


def listen(host: str, port: int) -> socket.socket:
    """Open the listening socket, before anything else is done; port 0 takes any free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
        # A head and its body are two writes: without this, the second waits until the browser acknowledges the first.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE:
            why = f"Port {port} of {host} is in use. Stop what uses it, or choose another: --port {port + 1}."
        elif problem.errno == errno.EACCES:
            why = f"Port {port} may only be used by the system's administrator. Choose one from 1024: --port 8000."
        else:
            reason = os.strerror(problem.errno) if problem.errno and problem.errno > 0 else problem.strerror
            why = (
                f"The service cannot listen on {host!r}, port {port}: {reason}. Give an address of this machine, such "
                "as --host 127.0.0.1."
            )
        raise InputError(why) from None


def reached_at(url: str | None, host: str, port: int) -> str:
    """The URL that links begin with: the given one, or the listening address if that is unique."""
    if not 0 <= port <= 65_535:
        raise InputError(f"port is {port}; give 1 to 65535, or 0 for any that is free.")
    if url is not None:
        return url
    if host in ANYWHERE:
        raise InputError(
            f"host is {host!r}, so the service answers on every address of this machine. Add --url, the one that "
            "people type, as https://study.example.org: links begin with it."
        )
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


@contextmanager
def _private_files() -> Iterator[None]:
    """Files created in this block are readable by their owner alone."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def _first_link(database: Database, settings: Settings, analyst: str) -> str | None:
    """A new analyst's account and its sign-in link; None if there is an analyst already."""
    with database.writing() as session:
        if any(account.role == Role.ANALYST for account in accounts.accounts(session)):
            return None
        account = accounts.account(session, analyst, Role.ANALYST, OPERATOR)
        return f"{settings.origin}/welcome/{accounts.new_link(session, account, OPERATOR)}"


def _run(settings: Settings, listener: socket.socket, workers: int) -> None:
    """Serve until stopped. There is no access log, so nobody's address is written anywhere."""
    several, settings = workers > 1, replace(settings, processes=workers)
    config = uvicorn.Config(
        partial(_worker, settings) if several else create_app(settings),
        factory=several,
        http=LimitedHeads,
        workers=workers,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="on",
        log_config=write_log_as(settings.log_format),
        log_level="error",
        timeout_keep_alive=15,
        timeout_graceful_shutdown=10,
        timeout_worker_healthcheck=HUNG_SECONDS,
    )
    try:
        if several:
            with _counting_together():
                _Workers(config, [listener]).run()
        else:
            _Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        LOG.info("Stopped.")


@contextmanager
def _counting_together() -> Iterator[None]:
    """Processes started in this block share their metrics in a temporary directory."""
    with tempfile.TemporaryDirectory() as directory:
        os.environ[METRICS_DIRECTORY] = directory
        try:
            yield
        finally:
            del os.environ[METRICS_DIRECTORY]


#: The most bytes of a request apart from its body: its address, its headers and chunked encoding.
LONGEST_HEAD = 65_536


class LimitedHeads(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol with a limit for the head, which it does not have itself."""

    _head = _body = 0

    def data_received(self, data: bytes) -> None:
        self._body = 0
        super().data_received(data)
        self._head += len(data) - self._body
        if self._head > LONGEST_HEAD and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        self._head = 0
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        super().on_body(body)


class _Server(uvicorn.Server):
    """Logs at Ctrl-C why it waits, and exits at once at the second: the next start resumes interrupted work."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            os._exit(128 + sig)
        if sig == signal.SIGINT:
            LOG.info(STOPPING)
        super().handle_exit(sig, frame)


#: The seconds after which an unresponsive worker is replaced.
HUNG_SECONDS = 60


def _worker(settings: Settings) -> FastAPI:
    """The application in a worker process, which ends when its parent does."""
    write_log_as(settings.log_format)
    keep_to_share(settings.processes, settings.locations.root)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=[parent.sentinel], name="follow", daemon=True).start()
    return create_app(settings)


def _follow(parent: int) -> None:
    wait([parent])
    os.kill(os.getpid(), signal.SIGTERM)


class _Workers(Multiprocess):
    """Worker processes on one socket. One that dies is replaced; all stop as a single server does."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)

    def init_processes(self) -> None:
        super().init_processes()
        self._close_their_ends()

    def _close_their_ends(self) -> None:
        """Keep one end of each worker's pipe: if both stay open, its death while it starts is noticed late."""
        for process in self.processes:
            process.child_conn.close()

    def keep_subprocess_alive(self) -> None:
        before = {process.pid for process in self.processes}
        super().keep_subprocess_alive()
        self._close_their_ends()
        for gone in before - {process.pid for process in self.processes}:
            LOG.error("A process died; another one has taken its place.")
            mark_process_dead(gone)  # type: ignore[no-untyped-call]

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self.should_exit.is_set():
            for process in self.processes:
                process.process.kill()
            os._exit(128 + number)
        if number == signal.SIGINT:
            LOG.info(STOPPING)
        self.should_exit.set()
