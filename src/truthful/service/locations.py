"""How a service is run, and where it keeps what is not in its database: one directory, one more for every frozen study.

service/
  truthful.db              unless another database is named
  studies/ID/study.toml    as frozen
  studies/ID/plan.json     as frozen
  studies/ID/links.key     makes links that are mailed, or that people of a panel come by
  studies/ID/closed.json   which answers the study was closed with, and the lot that rounds payments to coins
  studies/ID/ledger.json   every release ever drawn: never removed, and no backup of the database brings it back
  studies/ID/settlement/   release.json, receipts.parquet, payments.parquet, report.html, settlement.json
"""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from truthful.errors import InputError, Refused
from truthful.files import exclusive, pretty_json, sync, write_atomically
from truthful.plan import Plan
from truthful.settlement.atomic_release import open_target, read_ledger
from truthful.settlement.draw import FILE as DRAW
from truthful.study import Study

STUDY, PLAN, CLOSED, LINKS = "study.toml", "plan.json", "closed.json", "links.key"
LEDGER, SETTLEMENT = "ledger.json", "settlement"
LOCK = ".settling.lock"
#: What a killed write leaves beside the file it meant to write.
_UNWRITTEN = re.compile(r"\..+\.[0-9a-f]{16}")
#: Many ask for the same plan at once; one of them reads it.
_LOADING = threading.Lock()


class SettledElsewhere(Refused):
    """Another server on the same directory is at it."""


class FilesMissing(Refused):
    """The directory is not the one that a study was frozen in. It names the directory: for the analyst alone."""


@dataclass(frozen=True)
class Locations:
    """The service's directory."""

    root: Path

    def make(self) -> Path:
        """Make what is missing, for its owner's eyes alone; the directory."""
        for directory in (self.root, self.root / "studies"):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.root

    def study(self, study_id: str) -> Path:
        return self.root / "studies" / study_id

    def settlement(self, study_id: str) -> Path:
        return self.study(study_id) / SETTLEMENT

    def freeze(self, study_id: str, declaration: str, plan: str) -> Plan:
        """Write down the declaration and the plan that will be carried out. Once released, they stay."""
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
        return self.plan(study_id)

    def plan(self, study_id: str) -> Plan:
        path = self.study(study_id) / PLAN
        try:
            written = path.stat().st_mtime_ns
        except FileNotFoundError:
            raise FilesMissing(
                f"The files of the frozen study {study_id!r} are not in {str(self.root)!r}, and its ledger would be "
                "there too: without it a second release could go unnoticed. Start the service with the directory that "
                "the study was frozen in."
            ) from None
        with _LOADING:
            return _load(path, written)

    def links_key(self, study_id: str) -> bytes:
        """What links of this study are made with that can be made again."""
        path = self.study(study_id) / LINKS
        with _LOADING:
            if not path.exists():
                write_atomically(path, secrets.token_hex(32))
            return bytes.fromhex(path.read_text("ascii"))

    def is_closed(self, study_id: str) -> bool:
        """Whether the study was ever closed, whatever the database says."""
        return (self.study(study_id) / CLOSED).exists()

    @contextmanager
    def settling(self, study_id: str) -> Iterator[None]:
        """Keep other servers out while a study is settled here, and remove what killed ones left."""
        directory = self.study(study_id)
        with exclusive(directory / LOCK) as free:
            if not free:
                raise SettledElsewhere("Another server is settling this study.")
            for path in directory.iterdir():
                if _UNWRITTEN.fullmatch(path.name):
                    path.unlink()
            (self.settlement(study_id) / DRAW).unlink(missing_ok=True)
            yield

    def require_same_answers(self, study_id: str, fingerprint: str) -> None:
        """Note with which answers the study was closed; later they must be the same ones."""
        path = self.study(study_id) / CLOSED
        if not path.exists():
            closed = {"answers_sha256": fingerprint, "coins_key": secrets.token_hex(16)}
            write_atomically(path, pretty_json(closed))
        if self._closing_record(study_id)["answers_sha256"] != fingerprint:
            raise Refused(
                "The answers in the database are not those that the study was closed with: it is another database, or "
                "was restored from a backup. Nothing was released. Bring the right database back."
            )

    def coins_key(self, study_id: str) -> str:
        """What tosses for coins, of a closed study."""
        return str(self._closing_record(study_id)["coins_key"])

    def _closing_record(self, study_id: str) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.study(study_id) / CLOSED).read_text(encoding="utf-8"))
        return found

    def require_undrawn(self, study_id: str) -> None:
        """Nothing was ever drawn for this study, so that it may still end in another way."""
        out = self.settlement(study_id)
        entered = out.exists() or read_ledger(self.study(study_id) / LEDGER).entries
        if entered or (open_target(out).unfinished / DRAW).exists():
            raise Refused("The result of this study was drawn already. Settle it; nothing was changed.")

    def reopen(self, study_id: str) -> None:
        """Forget with which answers the study was closed: others will come."""
        (self.study(study_id) / CLOSED).unlink(missing_ok=True)
        sync(self.study(study_id))


@lru_cache(maxsize=32)
def _load(path: Path, written: int) -> Plan:
    """Read once: a frozen plan never changes, only one whose freezing was interrupted is written again."""
    return Plan.load(path.resolve())


PORTS = {"http": 80, "https": 443}
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Smtp:
    """A mail server, whom mails are from, and how to sign in there. Off this machine it must speak TLS."""

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
        if sender is None or not re.fullmatch(r"[^@\s<>]+@[^@\s<>]+", sender):
            raise InputError(
                f"mail-from is {sender!r}; give the address that mails are from, as studies@example.org."
            )
        if user is not None and not password:
            raise InputError("The password of the mail server is missing. Set TRUTHFUL_SMTP_PASSWORD.")
        return Smtp(host.strip("[]"), int(port), sender, user, password)


@dataclass(frozen=True)
class Settings:
    """What `truthful serve` was told.

    url: where people reach the service, as https://study.example.org; links begin with it. With https, cookies are sent
    over TLS alone. database: a URL; without one, SQLite in the directory. behind_proxy: addresses are those the proxy
    tells, which are used to limit rates and never kept. api_docs: show the machine's description of the pages. smtp:
    who takes mails, if any are sent.
    """

    directory: Path
    url: str = "http://127.0.0.1:8000"
    database: str | None = None
    behind_proxy: bool = False
    api_docs: bool = False
    smtp: Smtp | None = None

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
        """The names by which browsers know the service; on one's own machine, all that it has for itself."""
        name = urlsplit(self.url).hostname or ""
        return frozenset(map(self._host, LOOPBACK if name in LOOPBACK else (name,)))

    def _host(self, name: str) -> str:
        """A name with our port, as browsers send it: without the port that the scheme has anyway."""
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


def _is_origin(url: str) -> bool:
    """Whether it has a scheme and a host, perhaps a port, and nothing else."""
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
    except ValueError:  # a port that is none
        return False
