"""Where a service keeps what is not in its database: one directory, one more for every frozen study.

service/
  truthful.db              unless another database is named
  studies/ID/study.toml    as frozen
  studies/ID/plan.json     as frozen
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
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from truthful.errors import Refused
from truthful.files import exclusive, pretty_json, sync_directory, write_atomically
from truthful.plan import Plan
from truthful.settlement.atomic_release import open_target, read_ledger
from truthful.settlement.draw import FILE as DRAW
from truthful.study import Study

STUDY, PLAN, CLOSED, LEDGER, SETTLEMENT = (
    "study.toml",
    "plan.json",
    "closed.json",
    "ledger.json",
    "settlement",
)
SUMMARY = "settlement.json"
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
class Places:
    """The service's directory."""

    root: Path

    @property
    def database(self) -> str:
        """The URL of the database that is used if none is named."""
        return f"sqlite:///{self.root.resolve() / 'truthful.db'}"

    def make(self) -> None:
        """Make what is missing, for its owner's eyes alone."""
        for directory in (self.root, self.root / "studies"):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def study(self, survey_id: str) -> Path:
        return self.root / "studies" / survey_id

    def settlement(self, survey_id: str) -> Path:
        return self.study(survey_id) / SETTLEMENT

    def freeze(self, survey_id: str, declaration: str, plan: str) -> Plan:
        """Write down the declaration and the plan that will be carried out. Once released, they stay."""
        directory = self.study(survey_id)
        directory.mkdir(mode=0o700, exist_ok=True)
        sync_directory(directory.parent)
        if self.is_closed(survey_id) or read_ledger(directory / LEDGER).entries:
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
        return self.plan(survey_id)

    def plan(self, survey_id: str) -> Plan:
        """The plan of a frozen study."""
        path = self.study(survey_id) / PLAN
        try:
            written = path.stat().st_mtime_ns
        except FileNotFoundError:
            raise FilesMissing(
                f"The files of the frozen study {survey_id!r} are not in {str(self.root)!r}, and its ledger would be "
                "there too: without it a second release could go unnoticed. Start the service with the directory that "
                "the study was frozen in."
            ) from None
        with _LOADING:
            return _load(path, written)

    def is_closed(self, survey_id: str) -> bool:
        """Whether the study was ever closed, whatever the database says."""
        return (self.study(survey_id) / CLOSED).exists()

    @contextmanager
    def settling(self, survey_id: str) -> Iterator[None]:
        """Keep other servers out while a study is settled here, and remove what killed ones left."""
        directory = self.study(survey_id)
        with exclusive(directory / LOCK) as free:
            if not free:
                raise SettledElsewhere("Another server is settling this study.")
            for path in directory.iterdir():
                if _UNWRITTEN.fullmatch(path.name):
                    path.unlink()
            (self.settlement(survey_id) / DRAW).unlink(missing_ok=True)
            yield

    def require_same_answers(self, survey_id: str, fingerprint: str) -> None:
        """Note with which answers the study was closed; later they must be the same ones."""
        path = self.study(survey_id) / CLOSED
        if not path.exists():
            closed = {"answers_sha256": fingerprint, "coins_key": secrets.token_hex(16)}
            write_atomically(path, pretty_json(closed))
        if self._closed(survey_id)["answers_sha256"] != fingerprint:
            raise Refused(
                "The answers in the database are not those that the study was closed with: it is another database, or "
                "was restored from a backup. Nothing was released. Bring the right database back."
            )

    def coins_key(self, survey_id: str) -> bytes:
        """What tosses for coins, of a closed study: a key of its own, or that of the settlement's random halves."""
        summary = self.settlement(survey_id) / SUMMARY
        halves = json.loads(summary.read_text(encoding="utf-8")) if summary.exists() else {}
        return bytes.fromhex(halves.get("group_key") or self._closed(survey_id)["coins_key"])

    def _closed(self, survey_id: str) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.study(survey_id) / CLOSED).read_text(encoding="utf-8"))
        return found

    def require_undrawn(self, survey_id: str) -> None:
        """Nothing was ever drawn for this study, so that it may still end in another way."""
        out = self.settlement(survey_id)
        entered = out.exists() or read_ledger(self.study(survey_id) / LEDGER).entries
        if entered or (open_target(out).unfinished / DRAW).exists():
            raise Refused("The result of this study was drawn already. Settle it; nothing was changed.")

    def reopen(self, survey_id: str) -> None:
        """Forget with which answers the study was closed: others will come."""
        (self.study(survey_id) / CLOSED).unlink(missing_ok=True)
        sync_directory(self.study(survey_id))


@lru_cache(maxsize=32)
def _load(path: Path, written: int) -> Plan:
    """Read once: a frozen plan never changes, only one whose freezing was interrupted is written again."""
    return Plan.load(path.resolve())
