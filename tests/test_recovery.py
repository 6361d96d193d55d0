"""What answers can be recovered from what the service shows an analyst: none beyond guesses from the release.

The attack reads every row of every page and file that names a person, takes each number in it for her payment, and
works out which answer is paid that. With the payer's file it recovers most answers, so the test can fail.
"""

from __future__ import annotations

import html
import math
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom
from sqlalchemy import update
from starlette.testclient import TestClient
from support.serving import STUDY, Asked, Served, answer_all, asked, close, served, settle_with_less

from truthful.moments import grid_features, grid_responses
from truthful.one_release import paymaster
from truthful.release import read_release
from truthful.store.tables import Player, Role

#: Ten kinds of people, four of each: none of a region is rare, and answers within a kind can be moved about.
KINDS = [(price, region) for price in (1.0, 2.0, 4.0) for region in ("north", "south", "east")] + [
    (5.0, "north")
]
EACH, EPSILON, DOLLAR, COIN, STEPS = 4, 0.25, 1.0, 0.01, 64
#: What the attack recovers at least where it has amounts, of forty.
MOST = 36
#: The chance that the bound on lucky guesses fails although nothing but the release is shown.
FALSE_ALARM = 1e-6
TIMES = re.compile(
    r"\d{4}-\d\d-\d\d[ T]|\d{1,2}:\d\d:\d\d(\.\d+)?(\s[AP]M)?|\w+ \d+, \d{4}, \d{1,2}:\d\d\s[AP]M(?= UTC)"
    r"|(?<=,)[0-9a-f]{64}$",
    re.MULTILINE,
)
NAME, NUMBER = re.compile(r"p-\d+"), re.compile(r"(?<![\w.-])\d+(?:\.\d+)?(?![\w.-])")
#: Of so many people one is looked at through her link, too.
LINKS = 8


@dataclass(frozen=True)
class Life:
    """One life of the study: what its analyst was shown, by where and when; what was answered, and the payer's file."""

    study: Asked
    shown: dict[str, str]
    release: str
    paid: str


def two_sets_of_answers(players: list[str]) -> list[dict[str, float]]:
    """Answers that differ for everybody, by six dollars or more, and have the same sums within each kind of people."""
    rng = np.random.default_rng(16)
    first = rng.integers(-45, 46, size=(len(KINDS), EACH))
    moved = rng.integers(4, 15, size=(len(KINDS), 2))
    second = first + np.concatenate([moved, -moved], axis=1)
    return [
        dict(zip(players, (100 + 100 * set_ / STEPS).ravel().tolist(), strict=True))
        for set_ in (first, second)
    ]


def look(analyst: TestClient, study: Asked, when: str) -> dict[str, str]:
    """Everything that the service shows her: each page and file, and what her participants' links do for her."""
    paths, limits = analyst.app.openapi()["paths"], analyst.app.state.service.limits  # type: ignore[attr-defined]
    asked_for = {
        path.format(study_id=study.study_id, step="question")
        for path, methods in paths.items()
        if "get" in methods and "{token}" not in path and "{study_id}" in path
    }
    found = {
        path: analyst.get(path).text
        for path in sorted(asked_for | {"/studies", "/log", "/log.csv", "/people"})
    }
    found["/payments"] = analyst.get("/payments").text
    found["file"] = analyst.post(f"/payments/{study.study_id}/payments.csv").text
    for player, token in list(study.links.items())[::LINKS]:
        limits.unknown.forgive("testclient")
        own = f"/a/{token}"
        for path in (own, f"{own}/receipt.json", f"{own}/release.json", f"{own}/answer"):
            found[f"{player} {path}"] = analyst.get(path).text
        for move, data in (
            ("code", {"code": "AAAA-AAAA"}),
            ("consent", {}),
            ("withdraw", {}),
            ("dispute", {}),
        ):
            analyst.cookies.delete("code") if "code" in analyst.cookies else None
            found[f"{player} {move}"] = (
                analyst.post(f"{own}/{move}", data=data).text if when != "before" else ""
            )
    return {f"{when} {path}": TIMES.sub("·", text) for path, text in found.items()}


def live(directory: Path, study: Asked) -> Life:
    """From everybody's answers to the published result."""
    with served(directory) as here:
        here.service.settler.stop()
        answer_all(here.service, study)
        analyst = here.signed_in(Role.ANALYST)
        shown = look(analyst, study, "open")
        close(here.service, study.study_id)
        shown |= look(analyst, study, "closed")
        settle_with_less(here.service, study.study_id)
        shown |= look(analyst, study, "settled")
        assert analyst.post(f"/studies/{study.study_id}/publish").status_code == 303
        shown |= look(analyst, study, "published")
        release = analyst.get(f"/s/{study.study_id}/release.json").text
        paid = here.signed_in(Role.PAYER).post(f"/payments/{study.study_id}/payments.csv").text
    return Life(study, shown, release, paid)


def open_study(here: Served) -> Asked:
    """A study of forty people, ten kinds of them; its noise comes from a seed, so that it has two lives alike."""
    here.service.settler.stop()
    study = asked(here.service, STUDY, 4 * len(KINDS), rehearsal=True, epsilon=EPSILON, score_weight=400.0)
    players = sorted(study.links)
    features = {
        player: {"price": kind[0], "region": kind[1]}
        for player, kind in zip(players, [kind for kind in KINDS for _ in range(EACH)], strict=True)
    }
    with here.service.database.writing() as session:
        rows = [
            {"study_id": study.study_id, "player": player, "features": row}
            for player, row in features.items()
        ]
        session.execute(update(Player), rows)
    return replace(study, features=features)


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> tuple[Life, Life]:
    directory = tmp_path_factory.mktemp("recovery")
    with served(directory / "first") as here:
        study = open_study(here)
        for role in Role:
            here.signed_in(role)
    shutil.copytree(directory / "first", directory / "second")
    first, second = two_sets_of_answers(sorted(study.links))
    return (
        live(directory / "first", replace(study, answers=first)),
        live(directory / "second", replace(study, answers=second)),
    )


@dataclass(frozen=True)
class Attack:
    """Whoever knows the release and everybody's features: predictions, and what every answer would be paid."""

    players: list[str]
    predicted: np.ndarray
    answers: np.ndarray
    payments: np.ndarray

    @classmethod
    def on(cls, life: Life) -> Attack:
        study, plan, release = life.study.plan.study, life.study.plan, read_release(life.release.encode())
        players, mechanism, estimate = sorted(life.study.links), release.mechanism(study), release.estimate()
        names = [feature.name for feature in study.features]
        columns = {name: [life.study.features[player][name] for player in players] for name in names}
        x = study.normalise(columns, len(players))
        tried = np.linspace(0, 200, 801)
        pays = paymaster(mechanism, study.beliefs, estimate, len(players))  # type: ignore[arg-type]
        kx = np.repeat(grid_features(x), len(tried), axis=0)
        y = study.normalise_response(np.tile(tried, len(players)), np.repeat(x, len(tried), axis=0))
        paid = pays.score_players(kx, grid_responses(y, study.beliefs.response_bound)).payment
        assert plan.study.sha256 == study.sha256
        theta = np.array(release.theta)
        length = float(np.linalg.norm(theta))
        theta *= min(1.0, study.beliefs.radius / length)
        return cls(players, study.raw_response(x @ theta, x), tried, paid.reshape(len(players), len(tried)))

    def guess(self, texts: Iterable[str]) -> dict[str, list[float]]:
        """At most two answers of each: those that are paid a number beside her name, or else the one predicted."""
        beside: dict[str, list[str]] = {player: [] for player in self.players}
        for row in (row for text in texts for row in re.split(r"</tr>|\n", html.unescape(text))):
            for player in set(NAME.findall(row)) & beside.keys():
                beside[player].append(row)
        found = {}
        for at, player in enumerate(self.players):
            found[player] = [float(self.predicted[at])]
            for number in (float(n) for row in beside[player] for n in NUMBER.findall(row)):
                found[player] = self._paid(at, number) or found[player]
        return found

    def _paid(self, at: int, amount: float) -> list[float]:
        """The answers for which a person is paid this: where payments cross the amount, or nearly touch it."""
        off = self.payments[at] - amount
        crossed = np.flatnonzero(off[:-1] * off[1:] <= 0)
        if not len(crossed):
            nearest = int(np.argmin(np.abs(off)))
            return [float(self.answers[nearest])] if abs(off[nearest]) < COIN else []
        part = off[crossed] / np.where(off[crossed] == off[crossed + 1], 1.0, off[crossed] - off[crossed + 1])
        found = self.answers[crossed] + part * (self.answers[1] - self.answers[0])
        return [float(found[0]), float(found[-1])]


def recovered(guesses: dict[str, list[float]], answers: dict[str, float]) -> int:
    return sum(any(abs(one - answers[who]) <= DOLLAR for one in told) for who, told in guesses.items())


def lucky(life: Life) -> int:
    """How many can be guessed by luck: an answer lies within a dollar of one of two guesses with at most this chance.

    Answers are spread over 91 steps of 1.56 dollars, of which two at most are that near to one guess, and the
    release makes no answer more than e^epsilon times as likely.
    """
    return int(binom.isf(FALSE_ALARM, len(life.study.links), math.exp(EPSILON) * 2 * 2 / 91))


def test_whoever_joins_amounts_with_features_recovers_most_answers(lives: tuple[Life, Life]) -> None:
    """So amounts are worth keeping from the analyst, and the attack works."""
    for life in lives:
        found = recovered(Attack.on(life).guess([life.paid]), life.study.answers)
        assert found >= MOST, found


def test_an_analyst_recovers_no_answers_beyond_guesses_from_the_release(lives: tuple[Life, Life]) -> None:
    for life in lives:
        attack = Attack.on(life)
        guessed = recovered(attack.guess([]), life.study.answers)
        found = recovered(attack.guess(list(life.shown.values())), life.study.answers)
        assert max(guessed, found) <= lucky(life) < MOST / 2


def test_all_that_an_analyst_is_shown_is_the_same_whatever_people_said_if_the_release_is(
    lives: tuple[Life, Life],
) -> None:
    """Everybody answers otherwise, with the same released sums. Amounts differ, and nothing that she sees does."""
    one, other = lives
    assert all(abs(one.study.answers[who] - said) > 6 for who, said in other.study.answers.items())
    assert one.release == other.release
    assert one.paid != other.paid
    assert len(one.shown) > 300
    assert one.shown.keys() == other.shown.keys()
    assert [path for path, text in one.shown.items() if text != other.shown[path]] == []
