"""A whole study on invented people: declare, plan, collect, settle, verify."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow.parquet

from truthful import check
from truthful.errors import InputError, Refused
from truthful.formatting import money
from truthful.people import invent
from truthful.plan import Plan, design
from truthful.release import Verdict, verify
from truthful.settlement import Progress, Settlement, settle
from truthful.study import Study

PLAYERS = 20_000
LEAST_PLAYERS = 100  # with fewer people there is nothing to see
BUDGET_EACH = 0.25  # USD


@dataclass(frozen=True, eq=False)
class Demonstration:
    """Everything a demonstration made."""

    directory: Path
    plan: Plan
    settlement: Settlement
    verdict: Verdict
    truth: dict[str, float]


def demonstrate(
    directory: Path,
    *,
    players: int = PLAYERS,
    seed: int | None = None,
    tell: Callable[[str], None],
    progress: Progress | None = None,
) -> Demonstration:
    """Run the study in a new directory. A seed repeats it exactly, and makes it a rehearsal."""
    check.integer("players", players, least=LEAST_PLAYERS)
    _make(directory)
    path = directory / "study.toml"
    path.write_bytes(resources.files("truthful").joinpath("demo.toml").read_bytes())
    study = Study.load(path)
    tell(f"Declared {study.name!r}: {study.dimension} coefficients, features assigned at random.")
    people = invent(study, players, np.random.default_rng(seed))
    roster = people.reports.drop_columns([study.response.name])
    pyarrow.parquet.write_table(roster, directory / "roster.parquet")
    tell(f"Invented {players:,} people and assigned each a situation.")
    # Fewer people need more money each.
    budget = BUDGET_EACH * max(players, PLAYERS)
    plan = design(study, roster=roster, budget=budget)
    plan.save(directory / "plan.json")
    tell(
        f"Planned for these {players:,} people and {money(budget, study.currency)}: privacy "
        f"ε = {plan.mechanism.epsilon:.3g}."
    )
    pyarrow.parquet.write_table(people.reports, directory / "reports.parquet")
    tell("Collected their answers.")
    settlement = settle(
        plan, directory / "reports.parquet", out=directory / "settlement", seed=seed, progress=progress
    )
    tell("Settled: drew the private release and computed every payment.")
    player = people.reports.column("player")[players // 2].as_py()
    receipt = settlement.receipt(player)
    receipt.save(directory / "receipt.json")
    truth = dict(study.raw_coefficients(people.theta))
    return Demonstration(directory, plan, settlement, verify(settlement.release, receipt), truth)


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        raise Refused(f"{str(directory)!r} exists already. Name a directory that does not exist.") from None
    except OSError as problem:
        raise InputError(f"The directory {str(directory)!r} cannot be made: {problem.strerror}.") from None


def free_directory() -> Path:
    """truthful-demo, or the next free name."""
    names = (Path("truthful-demo" if k == 1 else f"truthful-demo-{k}") for k in count(1))
    return next(path for path in names if not path.exists())
