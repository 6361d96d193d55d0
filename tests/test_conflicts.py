"""Several who want the same rows at once, on PostgreSQL: whoever is late is told so, and nobody's page fails."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session
from support.databases import database_url
from support.sealed import keyed
from support.serving import WHO, answer_all, asked, close, code_of, served, settle_with_less

from truthful.errors import InputError, Refused
from truthful.store import answers, roster, studies

ROUNDS, BROWSERS = 20, 4


def test_one_link_in_four_browsers_and_a_roster_uploaded_never_stand_in_each_other_s_way(
    tmp_path: Path,
) -> None:
    """A deadlock would be raised here: the moves are made as pages make them, and only refusals are expected."""
    with database_url("postgresql", tmp_path) as url, served(tmp_path / "service", url) as here:
        study, database = asked(here.service), here.service.database
        link, barrier = study.links["p-01"], Barrier(BROWSERS + 1)

        def browse(seed: int) -> int:
            chance, made = random.Random(seed), 0
            for _ in range(ROUNDS):
                hers: dict[str, Any] = {"token": link, "code": code_of(here.service, link)}
                moves: list[Callable[[Session], object]] = [
                    partial(answers.consent, **hers),
                    partial(answers.submit, value=50.0, **hers),
                    partial(answers.withdraw, **hers),
                    partial(answers.dispute, wrong=True, **hers),
                    partial(answers.dispute, wrong=False, **hers),
                ]
                barrier.wait()
                with suppress(Refused):
                    database.transact(chance.choice(moves))
                    made += 1
            return made

        def upload() -> int:
            for _ in range(ROUNDS):
                barrier.wait()
                with suppress(Refused, InputError), database.writing() as session:
                    features = {"p-01": study.features["p-01"]}
                    roster.add(session, study.study_id, WHO, features, study.plan.players)
            return 1

        with ThreadPoolExecutor(BROWSERS + 1) as together:
            done = [together.submit(browse, seed) for seed in range(BROWSERS)] + [together.submit(upload)]
            assert all(future.result() for future in done)


def test_two_payers_who_mark_in_opposite_orders_take_turns(tmp_path: Path) -> None:
    with database_url("postgresql", tmp_path) as url, served(tmp_path / "service", url) as here:
        study, database = asked(here.service), here.service.database
        answer_all(here.service, study)
        close(here.service, study.study_id)
        settle_with_less(here.service, study.study_id)
        both = Barrier(2, timeout=20)

        def mark(players: list[str], undo: bool) -> int:
            for _ in range(ROUNDS):
                both.wait()
                with database.writing() as session:
                    studies.mark_sent(session, study.study_id, WHO, players)
                if undo:
                    with database.writing() as session:
                        studies.unmark_sent(session, study.study_id, WHO)
            return ROUNDS

        people = sorted(study.links)
        with ThreadPoolExecutor(2) as together:
            assert sum(together.map(mark, (people, people[::-1]), (True, False))) == 2 * ROUNDS


def test_whoever_was_ended_for_another_s_sake_tries_again(tmp_path: Path) -> None:
    """Two who lock two rows in opposite order: PostgreSQL ends one of them, and its work is done again."""
    with database_url("postgresql", tmp_path) as url:
        database = keyed(url, tmp_path)
        with database.writing() as session:
            session.execute(text("CREATE TABLE rows (id int PRIMARY KEY, changes int)"))
            session.execute(text("INSERT INTO rows VALUES (1, 0), (2, 0)"))
        both = Barrier(2)

        def change(first: int, second: int) -> int:
            tries = []

            def work(session: Session) -> None:
                tries.append(first)
                for row in (first, second):
                    session.execute(
                        text("UPDATE rows SET changes = changes + 1 WHERE id = :row"), {"row": row}
                    )
                    if row == first and len(tries) == 1:
                        both.wait()

            database.transact(work)
            return len(tries)

        with ThreadPoolExecutor(2) as together:
            tries = [*together.map(change, (1, 2), (2, 1))]
        assert sorted(tries) == [1, 2]
        with database.reading() as session:
            assert list(session.scalars(text("SELECT changes FROM rows"))) == [2, 2]
        database.close()
