"""Work that takes seconds: plans, charts and simulations, all cached.

Pages that need it run in thread pools of their own, so that an analyst who tries many plans takes no threads from
participants. Charts are drawn one at a time, because matplotlib is not thread-safe.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial, wraps
from pathlib import Path
from typing import Any

import pyarrow as pa
from starlette.responses import Response

from truthful.agents import agent
from truthful.charts.drawing import Chart, draw_chart
from truthful.charts.frontier_chart import draw_frontier
from truthful.check import Floats
from truthful.errors import Refused
from truthful.intake import read_features
from truthful.plan import Plan, design
from truthful.planner import Infeasible
from truthful.report import simulation_report
from truthful.service.limits import Pool
from truthful.service.pages import Visit
from truthful.simulation import simulate
from truthful.simulation.population import Features
from truthful.store.roster import feature_columns
from truthful.study import Study
from truthful.study.features import draw_columns

#: The arguments of `design`, as pairs so that they are hashable.
PlanArguments = tuple[tuple[str, float | str], ...]
Shares = tuple[tuple[str, float], ...]

_CHARTS = threading.Lock()
#: The most simulated people in all, and the most and fewest studies: enough to show each guarantee within seconds.
MOST_PEOPLE, MOST_STUDIES, LEAST_STUDIES = 12_000_000, 50, 3
#: The cost of computing one prediction, relative to that of simulating one person.
PREDICTION_COST = 0.1


def apart(pool: str) -> Callable[[Callable[..., Response]], Callable[..., Awaitable[Response]]]:
    """A decorator: run a slow page in this thread pool."""

    def decorate(show: Callable[..., Response]) -> Callable[..., Awaitable[Response]]:
        @wraps(show)
        async def wait_for_turn(visit: Visit, **values: Any) -> Response:
            places: Pool = getattr(visit.service.pools, pool)
            return await places.run(partial(show, visit, **values), visit.who)

        return wait_for_turn

    return decorate


@dataclass(frozen=True)
class DraftRoster:
    """The roster of a draft: its hash, and a function that loads the features."""

    sha256: str
    features: Callable[[], Sequence[Mapping[str, Any]]] = field(compare=False)

    def table(self, study: Study) -> pa.Table:
        return pa.table(feature_columns(study, self.features()))


def plans_from_roster(study: Study) -> bool:
    """Whether plans use the roster's features: only if there are any, and they are not protected."""
    return study.protects == "answers" and bool(study.features)


def needs_roster(study: Study) -> bool:
    """Whether planning needs a roster first, because the distribution of features is not declared."""
    return plans_from_roster(study) and study.design.kind in ("observed", "covariance")


@lru_cache(maxsize=64)
def parse_study(declaration: str) -> Study:
    """The study in the text of a study file, cached."""
    return Study.parse(declaration)


@lru_cache(maxsize=32)
def parse_plan(plan: str) -> Plan:
    return Plan.parse(plan)


def make_plan(declaration: str, asked: PlanArguments, listed: DraftRoster | None = None) -> Plan:
    """The best plan for these arguments; Infeasible if there is none."""
    found = _make_plan(declaration, asked, listed)
    if isinstance(found, Infeasible):
        raise found.with_traceback(None)
    return found


@lru_cache(maxsize=64)
def _make_plan(declaration: str, asked: PlanArguments, listed: DraftRoster | None) -> Plan | Infeasible:
    """The plan, or the Infeasible: returned, so that it is cached too, as it takes longest to find."""
    study = parse_study(declaration)
    people = listed.table(study) if listed is not None and plans_from_roster(study) else None
    try:
        return design(study, roster=people, **dict(asked))  # type: ignore[arg-type]
    except Infeasible as answer:
        _ = answer.remedies  # computed now, in this thread for slow work
        return answer


@lru_cache(maxsize=32)
def frontier_svg(plan: Plan) -> bytes:
    """The chart of what other budgets would buy, as SVG."""
    return _svg(lambda path: draw_frontier(plan, path))


def chart_svg(chart: Chart) -> bytes:
    return _svg(lambda path: draw_chart(chart, path))


def _svg(draw: Callable[[Path], object]) -> bytes:
    with tempfile.TemporaryDirectory() as directory, _CHARTS:
        path = Path(directory) / "chart.svg"
        draw(path)
        return path.read_bytes()


def count_studies(plan: Plan, shares: Shares = ()) -> int:
    """The number of studies to simulate for a plan: fewer where agents compute many predictions each."""
    each = 1 + PREDICTION_COST * sum(share * agent(name).looks for name, share in shares)
    runs = min(MOST_STUDIES, int(MOST_PEOPLE / (plan.players * each)))
    if runs < LEAST_STUDIES:
        raise Refused(
            f"{plan.players:,} such people are too many to be simulated while you wait. Choose fewer who calculate, or "
            "download plan.json and run `truthful simulate plan.json` on a machine of your own."
        )
    return runs


@lru_cache(maxsize=8)
def simulation_page(text: str, shares: Shares, seed: int, listed: DraftRoster | None = None) -> str:
    """The report of a simulation of the plan in this text: observed next to guaranteed."""
    plan = parse_plan(text)
    features = _features(plan, listed)
    done = simulate(plan, dict(shares), runs=count_studies(plan, shares), seed=seed, features=features)
    with _CHARTS:
        return simulation_report(done)


def _features(plan: Plan, listed: DraftRoster | None) -> Features | Floats | None:
    """Features to simulate with: none if the study assigns them, else the roster's, or else evenly spread ones."""
    study = plan.study
    if study.assigned:
        return None
    if listed is not None and plan.roster is not None:
        return read_features(study, listed.table(study))
    return lambda rng, n: study.normalise(draw_columns(rng, n, study.declared.encoding.features), n)
