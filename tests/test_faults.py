"""A service that is killed: nothing acknowledged is lost, nothing is released twice, everybody is due what is right."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.databases import KINDS, database_url
from support.faults import KILLS, Person, require_whole, run
from support.killed_once import PLAYERS
from support.serving import WITHOUT_FEATURES, Asked, draft, invented, served

from truthful.service.locations import Settings
from truthful.service.pages import Service
from truthful.service.settle_study import Settler
from truthful.store import studies

DRIVER = Path(__file__).parent / "support" / "killed_once.py"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_service_killed_at_any_moment_loses_nothing_and_releases_once(kind: str, tmp_path: Path) -> None:
    with database_url(kind, tmp_path) as url:
        theatre = run(tmp_path / "service", url, studies=1, seed=7)
    assert theatre.killed.total() == theatre.lives.kills == 1 + sum(kills for kills, _ in KILLS.values())
    assert min(theatre.acknowledged) >= 24


@pytest.mark.slow
def test_a_service_killed_before_every_durable_step_goes_on_from_there(tmp_path: Path) -> None:
    with served(tmp_path / "planned") as running:
        draft(running.service, WITHOUT_FEATURES, PLAYERS)
    told = subprocess.run(
        [sys.executable, str(DRIVER), str(tmp_path / "planned")], capture_output=True, text=True
    )
    assert (told.returncode, told.stderr) == (0, "")
    steps = int((tmp_path / "0" / "steps").read_text())
    directories = [tmp_path / f"{k}" for k in range(steps + 1)]
    for directory in directories:
        require_recovered(directory)
    seen = [(directory / "seen").read_text() != "" for directory in directories[1:]]
    assert True in seen
    assert False in seen


def require_recovered(directory: Path) -> None:
    settings = Settings(directory)
    database = settings.open_database()
    service = Service(settings, database, Settler(database, settings.locations))
    with database.reading() as session:
        (stored,) = studies.list_studies(session)
        release = stored.release or ""
    plan = settings.locations.plan(stored.id)
    features, answers, _ = invented(plan, PLAYERS)
    cast = {player: Person("", possible={answer}) for player, answer in answers.items()}
    seen = {text for text in ((directory / "seen").read_text(), release) if text}
    require_whole(service, Asked(stored.id, plan, {}, features, answers, {}), cast, seen)
    database.close()
