"""Run as a program: freeze, ask, close, settle and publish a study, dying by SIGKILL at every durable step in turn.

    python killed_once.py PLANNED

The directory is that of a service with one planned draft. It is copied to directories beside it, and a copy's name
says before which durable step to die: a write to the disk or the end of a transaction. 0 is for a life that ends by
itself, and tells how many steps there are. The second life goes on where the first one stopped. What can be seen of
the release between the two is kept in the file `seen`; a life that ends by itself writes how many steps it made to
the file `steps`.
"""

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from sqlalchemy.orm import Session

from support import killed_settlement
from support.killed_settlement import deadly, load
from support.serving import WHO, Asked, answer_all, bring, close, invented
from truthful.service.locations import Settings
from truthful.service.pages import Service
from truthful.service.settle_study import Settler, freeze, settle_study
from truthful.store import roster, studies
from truthful.store.database import Database
from truthful.store.seals import Seals, open_seals
from truthful.store.tables import State

#: Of the study that lives and dies.
PLAYERS = 24


class Mortal(Database):
    """Dies before one of its transactions ends, if it is the one meant."""

    def __init__(self, url: str, seals: Seals, k: int) -> None:
        super().__init__(url, seals)
        self._step = deadly(lambda: None, k, "before")

    @contextmanager
    def writing(self) -> Iterator[Session]:
        with super().writing() as session:
            yield session
            session.flush()
            self._step()


def live(directory: Path, k: int) -> None:
    for name in ("fsync", "replace", "rename"):
        setattr(os, name, deadly(getattr(os, name), k, "before"))
    settings = Settings(directory)
    run(settings, Mortal(settings.database_url, open_seals(directory, None), k))
    (directory / "steps").write_text(str(killed_settlement.writes))


def run(settings: Settings, database: Database) -> None:
    """From wherever the study is to its publication."""
    service = Service(settings, database, Settler(database, settings.locations))
    service.settler.recover()
    with database.reading() as session:
        (stored,) = studies.list_studies(session)
        asked = roster.size(session, stored.id) > 0
    if stored.state == State.DRAFT:
        freeze(database, settings.locations, stored.id, WHO, rehearsal=False)
    if stored.state in (State.DRAFT, State.OPEN):
        if not asked:
            bring(service, stored.id, PLAYERS)
        answer_all(service, invited_again(service, stored.id))
        close(service, stored.id)
    if stored.state != State.SETTLED:
        settle_study(database, settings.locations, stored.id)
    with database.writing() as session:
        studies.step(session, stored.id, State.PUBLISHED, WHO)


def invited_again(service: Service, study_id: str) -> Asked:
    """Everybody, with new links."""
    plan = service.locations.plan(study_id)
    with service.database.writing() as session:
        links = dict(roster.invite(session, study_id, WHO, again=True))
    return Asked(study_id, plan, links, *invented(plan, PLAYERS))


def forked(directory: Path, k: int) -> None:
    os.waitpid(begun(directory.name, lambda: live(directory, k)), 0)


def begun(name: str, act: Callable[[], None]) -> int:
    """Act in a process of its own; its id."""
    child = os.fork()
    if child == 0:
        try:
            act()
        except BaseException as error:
            print(f"{name}: {error!r}", file=sys.stderr)
        os._exit(0)
    return child


def both_lives(*directories: Path) -> None:
    """Live and die in each, one after the other."""
    for directory in directories:
        forked(directory, int(directory.name))
        found = list(directory.glob("studies/*/settlement/release.json"))
        (directory / "seen").write_text(found[0].read_text() if found else "")
        if not (directory / "steps").exists():
            forked(directory, 0)


def all_lives(planned: Path) -> None:
    """Count the steps, and die before each of them, on all cores."""

    def copied(k: int) -> Path:
        return Path(shutil.copytree(planned, planned.with_name(str(k))))

    both_lives(first := copied(0))
    directories = [copied(k) for k in range(1, int((first / "steps").read_text()) + 1)]
    cores = os.cpu_count() or 1
    parts = [directories[core::cores] for core in range(cores)]
    for child in [begun("some", partial(both_lives, *part)) for part in parts]:
        os.waitpid(child, 0)


def rehearse(planned: Path) -> None:
    """All that a life does, once, so that no life has to load and prepare what others have."""
    load()
    with tempfile.TemporaryDirectory() as name:
        settings = Settings(Path(shutil.copytree(planned, Path(name) / "service")))
        database = settings.open_database()
        run(settings, database)
        database.close()
    gc.freeze()


if __name__ == "__main__":
    rehearse(Path(sys.argv[1]))
    all_lives(Path(sys.argv[1]))
