"""The settings of a service, and the files that it keeps outside its database: one directory, with one for each study.

service/
  truthful.db              unless another database is named
  logo.png or logo.jpg     an optional logo, shown beside the name of the asker
  truthful.key             opens the keys of all studies; may be in the environment instead, out of backups' reach
  studies/ID/study.toml    as frozen
  studies/ID/plan.json     as frozen
  studies/ID/answers.key   opens answers and payments, in the database and in books.sealed
  studies/ID/links.key     derives the links that are mailed or used by panels
  studies/ID/draw-*.key    the key of the noise, made at freezing and destroyed once the study has ended
  studies/ID/erased.json   records the erasure of its people's data; restored older databases are erased by it again
  studies/ID/closed.json   the fingerprint of the answers at closing, and the key that rounds payments to coins
  studies/ID/ledger.json   every release ever drawn: never removed, and not restored with the database
  studies/ID/settlement/   release.json, report.html and, sealed, payments, receipts and settlement.json
"""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import re
import secrets
import shlex
import shutil
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from truthful.errors import InputError, Refused
from truthful.files import exclusive, pretty_json, sync, write_atomically
from truthful.plan import Plan
from truthful.settlement.atomic_release import read_ledger, unfinished_name
from truthful.settlement.draw import derived_name, destroy_key, ensure_key, key_path, read_key
from truthful.store import factors
from truthful.store.database import Database
from truthful.store.seals import KEY_FILE, VARIABLE, new_secret, open_seals, sealed_studies, shred, write_key
from truthful.study import Study

STUDY, PLAN, CLOSED, LINKS = "study.toml", "plan.json", "closed.json", "links.key"
LEDGER, SETTLEMENT = "ledger.json", "settlement"
LOCK = ".settling.lock"
#: The media type and first bytes of a logo, by file name. Not SVG, which could hold scripts.
LOGOS = {"logo.png": ("image/png", b"\x89PNG\r\n\x1a\n"), "logo.jpg": ("image/jpeg", b"\xff\xd8\xff")}
LARGEST_LOGO = 100_000
#: The name of a temporary file that an interrupted write leaves.
_UNWRITTEN = re.compile(r"\..+\.[0-9a-f]{16}")
#: Lets one thread read a plan that many ask for at once.
_LOADING = threading.Lock()


class SettledElsewhere(Refused):
    """Another process holds the study's lock."""


class FilesMissing(Refused):
    """A frozen study's files are missing from the directory. The message names paths, so it is for analysts alone."""


@dataclass(frozen=True)
class Locations:
    """The files in a service's directory."""

    root: Path

    def make(self) -> Path:
        """Create missing directories, readable by their owner alone; the directory."""
        for directory in (self.root, self.studies):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.root

    @property
    def studies(self) -> Path:
        """The directory of studies, which exists from the first start on."""
        return self.root / "studies"

    def logo(self) -> tuple[bytes, str] | None:
        """The organisation's logo and its media type; None if there is none."""
        for name, (kind, beginning) in LOGOS.items():
            path = self.root / name
            if not path.exists():
                continue
            content = path.read_bytes()
            if not content.startswith(beginning) or len(content) > LARGEST_LOGO:
                raise InputError(
                    f"{str(path)!r} is no {kind} of at most {LARGEST_LOGO // 1000} kB. Save the logo again in that "
                    "format, about 200 pixels high, or remove the file."
                )
            return content, kind
        return None

    def frozen(self) -> list[str]:
        """The studies that have a frozen plan."""
        return sorted(path.parent.name for path in (self.root / "studies").glob(f"*/{PLAN}"))

    def study(self, study_id: str) -> Path:
        return self.studies / study_id

    def settlement(self, study_id: str) -> Path:
        return self.study(study_id) / SETTLEMENT

    def freeze(self, study_id: str, declaration: str, plan: str) -> Plan:
        """Write the declaration and the plan of a study, and make the key of its draw.

        Refused once the study was closed or drawn.
        """
        directory = self.study(study_id)
        directory.mkdir(mode=0o700, exist_ok=True)
        sync(directory.parent)
        if self.is_closed(study_id) or read_ledger(directory / LEDGER).entries:
            raise Refused(
                "This very study was frozen and closed before, so the database is older than its directory. Restore a "
                "newer backup of the database, or create a new study; nothing was changed."
            )
        write_atomically(directory / STUDY, declaration)
        planned = Plan.parse(plan)
        at_home = Study.load(directory / STUDY)
        if at_home.sha256 != planned.study.sha256:
            raise Refused("The study was changed after its plan was made. Plan it again, then freeze it.")
        replace(planned, study=at_home).save(directory / PLAN)
        ensure_key(key_path(directory, planned.sha256))
        return self.plan(study_id)

    def key_sha256(self, study_id: str) -> str | None:
        """The hash of a frozen study's key, if the key exists."""
        key = read_key(key_path(self.study(study_id), self.plan(study_id).sha256))
        return None if key is None else hashlib.sha256(key).hexdigest()

    def require_key(self, study_id: str, frozen_with: str | None) -> None:
        """Refuse a key other than the one that the study was frozen with, unless the ledger has a draw, which decides.

        Studies from before 0.2.0 were frozen without a key; theirs is made for the draw.
        """
        entered = read_ledger(self.study(study_id) / LEDGER).entries
        if frozen_with is not None and not entered and self.key_sha256(study_id) != frozen_with:
            raise Refused(
                "The key from which the noise of this study follows is not the one it was frozen with, or is missing. "
                "Another one could draw a second result. Nothing was released. Bring the study's files back from a "
                "backup."
            )

    def destroy_keys(self, study_id: str) -> None:
        """Destroy the keys of an ended study's draw, and plain books that a crash has left."""
        for path in self.study(study_id).glob("draw-*.key"):
            destroy_key(path)
        if (left := unfinished_name(self.settlement(study_id))).exists():
            for path in filter(Path.is_file, left.rglob("*")):
                shred(path)
            shutil.rmtree(left)

    def plan(self, study_id: str) -> Plan:
        path = self.study(study_id) / PLAN
        try:
            written = path.stat().st_mtime_ns
        except FileNotFoundError:
            raise self._missing(study_id) from None
        with _LOADING:
            return _load(path, written)

    def _missing(self, study_id: str) -> FilesMissing:
        return FilesMissing(
            f"The files of the frozen study {study_id!r} are not in {str(self.root)!r}, and its ledger would be "
            "there too: without it a second release could go unnoticed. Start the service with the directory that "
            "the study was frozen in."
        )

    def links_key(self, study_id: str) -> bytes:
        """The key that this study's mailed and panel links are derived from, made if missing."""
        path = self.study(study_id) / LINKS
        with _LOADING:
            if not path.exists():
                write_atomically(path, secrets.token_hex(32), private=True)
            return bytes.fromhex(path.read_text("ascii"))

    def is_closed(self, study_id: str) -> bool:
        """Whether the study's files say that it was closed, whatever the database says."""
        return (self.study(study_id) / CLOSED).exists()

    @contextmanager
    def settling(self, study_id: str) -> Iterator[None]:
        """Lock a study against other processes, and remove the temporary files that interrupted ones left."""
        directory = self.study(study_id)
        if not directory.exists():
            raise self._missing(study_id)
        with exclusive(directory / LOCK) as free:
            if not free:
                raise SettledElsewhere("Another server is settling this study.")
            for path in directory.iterdir():
                if _UNWRITTEN.fullmatch(path.name):
                    path.unlink()
            yield

    def require_same_answers(self, study_id: str, fingerprint: str) -> None:
        """Record the fingerprint of the answers at the first call; refuse any other later."""
        if not self.is_closed(study_id):
            self.note_answers(study_id, fingerprint)
        if self._closing_record(study_id).get("answers_hmac") != fingerprint:
            raise Refused(
                "The answers in the database are not those that the study was closed with: it is another database, or "
                "was restored from a backup. Nothing was released. Bring the right database back."
            )

    def note_answers(self, study_id: str, fingerprint: str) -> None:
        """Record the fingerprint of the answers that the study was closed with."""
        closed = self.is_closed(study_id)
        lot = self.coins_key(study_id) if closed else self._coins_key(study_id, fingerprint)
        record = {"answers_hmac": fingerprint, "coins_key": lot}
        write_atomically(self.study(study_id) / CLOSED, pretty_json(record))

    def _coins_key(self, study_id: str, fingerprint: str) -> str:
        """The key of the coins: equal in all copies of a study closed with equal answers; random without a draw key."""
        plan = self.plan(study_id).sha256
        key = read_key(key_path(self.study(study_id), plan))
        return secrets.token_hex(16) if key is None else derived_name(key, "coins", plan, fingerprint)

    def closed_by_older(self, study_id: str) -> str | None:
        """The unkeyed fingerprint of the answers that an older version recorded, if any."""
        return self._closing_record(study_id).get("answers_sha256") if self.is_closed(study_id) else None

    def coins_key(self, study_id: str) -> str:
        """The key that decides the rounding of a closed study's payments to coins."""
        return str(self._closing_record(study_id)["coins_key"])

    def _closing_record(self, study_id: str) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.study(study_id) / CLOSED).read_text(encoding="utf-8"))
        return found

    def require_unreleased(self, study_id: str) -> None:
        """Refuse if anything was drawn: then the study can only be settled."""
        if self.settlement(study_id).exists() or read_ledger(self.study(study_id) / LEDGER).entries:
            raise Refused("The result of this study was drawn already. Settle it; nothing was changed.")

    def reopen(self, study_id: str) -> None:
        """Remove the fingerprint of the answers at closing, as there will be others."""
        (self.study(study_id) / CLOSED).unlink(missing_ok=True)
        sync(self.study(study_id))


@lru_cache(maxsize=32)
def _load(path: Path, written: int) -> Plan:
    """Load a plan, cached until the file is written again, as after an interrupted freezing."""
    return Plan.load(path.resolve())


PORTS = {"http": 80, "https": 443}
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Smtp:
    """A mail server, the sender's address, and credentials. On another machine it must speak TLS."""

    host: str
    port: int
    sender: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @staticmethod
    def read(server: str, sender: str | None, user: str | None, password: str | None) -> Smtp:
        host, _, port = server.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port[:6]) <= 65_535:
            raise InputError(
                f"smtp is {server!r}; give the mail server as HOST:PORT, such as mail.example.org:587."
            )
        if sender is None:
            raise InputError("No sender is named: add --mail-from, as studies@example.org.")
        if not re.fullmatch(r"[^@\s<>]+@[^@\s<>]+", sender):
            raise InputError(
                f"mail-from is {sender!r}; give the address that mails are from, as studies@example.org."
            )
        if user is not None and not password:
            raise InputError("The password of the mail server is missing. Set TRUTHFUL_SMTP_PASSWORD.")
        return Smtp(host.strip("[]"), int(port), sender, user, password)


@dataclass(frozen=True)
class Provider:
    """An OpenID provider, and the service's client id and secret there."""

    issuer: str
    client_id: str
    secret: str = field(repr=False)

    @staticmethod
    def read(issuer: str, client_id: str | None, secret: str | None) -> Provider:
        """Check the options of the command line."""
        parts = urlsplit(issuer)
        encrypted = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
        if not encrypted or not parts.hostname or parts.query or parts.fragment:
            raise InputError(
                f"oidc_issuer is {issuer!r}; give the provider's address with https, as it stands in its "
                ".well-known/openid-configuration."
            )
        if not client_id:
            raise InputError(
                "There is an oidc_issuer, and no name that it knows the service by: add --oidc-client-id."
            )
        if not secret:
            raise InputError(
                "There is an oidc_issuer, and no secret: put the client's secret in the variable TRUTHFUL_OIDC_SECRET."
            )
        return Provider(issuer, client_id, secret)


@dataclass(frozen=True)
class Settings:
    """The settings of `truthful serve`.

    url: the service's public address, as https://study.example.org; links begin with it. With https, cookies are sent
    over TLS alone. database: a URL; by default SQLite in the directory. behind_proxy: take clients' addresses from the
    proxy's headers; they serve rate limits and are never stored. api_docs: serve /openapi.json. smtp: the mail server,
    if mails are sent. require_second_factor: accounts see only their own page until they have set one up. log_format:
    words, or json for one record a line. oidc: an OpenID provider to sign in through; without `passwords`, the only
    way. processes: the number of processes that serve together.
    """

    directory: Path
    url: str = "http://127.0.0.1:8000"
    database: str | None = None
    behind_proxy: bool = False
    api_docs: bool = False
    smtp: Smtp | None = None
    require_second_factor: bool = False
    log_format: str = "words"
    oidc: Provider | None = None
    passwords: bool = True
    processes: int = 1

    def __post_init__(self) -> None:
        if not _is_origin(self.url):
            raise InputError(
                f"url is {self.url!r}; give what people type before the first slash, as https://study.example.org."
            )

    @property
    def origin(self) -> str:
        return f"{urlsplit(self.url).scheme}://{self._host(urlsplit(self.url).hostname or '')}"

    @property
    def hosts(self) -> frozenset[str]:
        """The Host headers that the service accepts; on the loopback interface, all of its names."""
        name = urlsplit(self.url).hostname or ""
        return frozenset(map(self._host, LOOPBACK if name in LOOPBACK else (name,)))

    def _host(self, name: str) -> str:
        """A name with our port as in Host headers: without the scheme's default port."""
        parts = urlsplit(self.url)
        bare = f"[{name}]" if ":" in name else name
        return bare if parts.port in (None, PORTS[parts.scheme]) else f"{bare}:{parts.port}"

    @property
    def secure(self) -> bool:
        return self.origin.startswith("https:")

    @property
    def locations(self) -> Locations:
        return Locations(self.directory)

    @property
    def database_url(self) -> str:
        return self.database or f"sqlite:///{self.directory.resolve() / 'truthful.db'}"

    @property
    def environment_key(self) -> str | None:
        """The service's key in the environment, if it is there."""
        return os.environ.get(VARIABLE) or None

    def require_service(self) -> Path:
        """The directory; InputError if no service was ever started with it, Refused if it is another user's."""
        self.require_owner()
        if not self.locations.studies.is_dir():
            raise InputError(
                f"There is no service in {str(self.directory)!r}. Give the directory that `truthful serve` was given."
            )
        return self.directory

    def require_owner(self) -> None:
        """Refuse root where the service is another user's, who could not read the files that root would leave."""
        studies = self.locations.studies
        owner = studies.stat().st_uid if studies.exists() else os.geteuid()
        if os.geteuid() == 0 != owner:
            user = _user(owner)
            raise Refused(
                f"The service in {str(self.directory)!r} is run by the user {user!r}, who could not read what you as "
                f"root would write there. Give the command as that user: sudo -u {shlex.quote(user)} truthful …"
            )

    def open_database(self) -> Database:
        """The database of this directory, migrated, with its keys.

        A key is created only if nothing is sealed yet, and tables only if no study is frozen: where either was lost,
        this refuses instead of starting afresh.
        """
        self.locations.make()
        seals = open_seals(self.directory, self.environment_key)
        database = Database(self.database_url, seals)
        if database.is_empty and (frozen := self.locations.frozen()):
            raise Refused(
                f"The database {database.shown} is empty, but {str(self.directory / 'studies')!r} holds "
                f"{len(frozen)} frozen studies. Bring the database back, from a backup if it was lost, or start with "
                "another directory. Nothing was changed."
            )
        if not seals.masters:
            if database.is_sealed or sealed_studies(seals.studies):
                raise self._missing_key()
            seals.masters = (new_secret(),)
            write_key(self.directory, seals.masters)
        database.upgrade()
        with database.reading() as session:
            factors.require_readable(session)
        return database

    @contextmanager
    def existing_database(self) -> Iterator[Database]:
        """The database of a service that was started before and may be running: nothing is created or migrated."""
        seals = open_seals(self.require_service(), self.environment_key)
        with closing(Database(self.database_url, seals)) as database, database.readable_errors():
            database.require_tables()
            if not seals.masters:
                raise self._missing_key()
            yield database

    def _missing_key(self) -> Refused:
        return Refused(
            f"The key {str(self.directory / KEY_FILE)!r} is missing, and what is kept here is sealed with it. Put the "
            f"key back, or set {VARIABLE}. Nothing was changed."
        )


def _user(number: int) -> str:
    """A user's name, or the number of one without a name."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"#{number}"  # as sudo takes it


def _is_origin(url: str) -> bool:
    """Whether a URL has a scheme and a host, perhaps a port, and nothing else."""
    try:
        parts = urlsplit(url)
        extra = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
        return (
            parts.scheme in PORTS
            and bool(parts.hostname)
            and (parts.port is None or parts.port >= 0)
            and not extra
            and url.isascii()
            and url.isprintable()
            and " " not in url
        )
    except ValueError:  # an invalid port
        return False
