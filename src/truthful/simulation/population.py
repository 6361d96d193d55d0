"""Participants: shares of agents turned into a number of players each, their features, and the noise in answers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from scipy import special

from truthful import check
from truthful.agents import Agent, Honest, agent
from truthful.beliefs.laws import Noise, TruncatedNormal, chebyshev_nodes, monomials
from truthful.check import Floats
from truthful.errors import InputError
from truthful.lazily import njit
from truthful.moments import GRID
from truthful.plan import Plan
from truthful.study import Study
from truthful.study.features import Levels

#: Draws the normalised features of n people.
Features = Callable[[np.random.Generator, int], Floats]
#: Draws n values of noise.
Sampler = Callable[[np.random.Generator, int], Floats]

# erfinv(v)/v is analytic in v² up to its singularity at v² = 1. On v² ≤ INNER² a polynomial of this order leaves 1e-15.
INNER, ORDER = 0.85, 26


@dataclass(frozen=True)
class PopulationRole:
    """An agent, its share of the players, and their places. Players are exchangeable, so roles are filled in order."""

    agent: Agent
    share: float
    players: slice

    @property
    def count(self) -> int:
        return int(self.players.stop - self.players.start)

    def record(self) -> dict[str, Any]:
        """The role in the record of a simulation: everything needed to make the same agent again."""
        return {
            "agent": self.agent.name,
            "class": _name(self.agent),
            "share": self.share,
            "players": self.count,
            "parameters": _parameters(self.agent),
        }


def _name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _parameters(value: Any) -> dict[str, Any]:
    """The fields of a dataclass, without those left at None."""
    names = [field.name for field in fields(value) if field.init] if is_dataclass(value) else []
    return {name: _write(getattr(value, name)) for name in names if getattr(value, name) is not None}


def _write(value: Any) -> Any:
    if is_dataclass(value):
        return {"class": _name(value), **_parameters(value)}
    return value if isinstance(value, bool | int | float | str) else repr(value)


#: Advice in error messages.
AGENTS = 'Give shares by name, say {"exaggerator": 0.1}.'


def assign_roles(agents: Mapping[str | Agent, float] | None, players: int) -> tuple[PopulationRole, ...]:
    """Assign roles to this many players. Shares add up to at most 1; the rest are honest.

    Shares are exact, not drawn: a plan allows for a share of liars, and simulations use exactly that share.
    """
    chosen: dict[Agent, float] = {}
    shares = {} if agents is None else check.instance("agents", agents, Mapping, AGENTS)
    for named, share in shares.items():
        kind = agent(named) if isinstance(named, str) else check.instance("agents", named, Agent, AGENTS)
        if not 0 <= check.finite(f"The share of {kind.name!r}", share) <= 1:
            raise InputError(f"The share of {kind.name!r} is {share!r}; it must lie between 0 and 1.")
        chosen[kind] = float(share)
    left = 1 - sum(chosen.values())
    if left < -1e-9:
        raise InputError(f"The shares of the agents add up to {1 - left:g}; they must not exceed 1.")
    if left > 1e-9:
        chosen[Honest()] = chosen.get(Honest(), 0.0) + left
    ends = np.rint(np.cumsum([0.0, *chosen.values()]) * players).astype(int).tolist()
    return tuple(
        PopulationRole(kind, share, slice(start, end))
        for (kind, share), start, end in zip(chosen.items(), ends, ends[1:], strict=False)
    )


def read_agents(text: str) -> dict[str | Agent, float]:
    """Parse shares as people write them: `honest=0.9,exaggerator=0.1`."""
    shares: dict[str | Agent, float] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, share = (piece.strip() for piece in part.partition("="))
        kind = agent(name)
        try:
            shares[kind] = shares.get(kind, 0.0) + float(share)
        except ValueError:
            raise InputError(f"{part!r} is not an agent and its share; write, say, {name}=0.1.") from None
    return shares


# Features


@dataclass(frozen=True)
class FeatureSource:
    """The rows that people's features were drawn from, and the hash of these, normalised; None if none were given.

    The hash is SHA-256 of the matrix, row by row, as little-endian 64-bit floats. `everybody`: the rows are the people
    the plan was made for, and all of them take part in every study.
    """

    rows: int | None = None
    sha256: str | None = None
    everybody: bool = False


def features_of(plan: Plan, given: Any) -> tuple[Features, FeatureSource]:
    """A function that draws people's features, and what identifies the rows it draws from.

    The plan's own roster is drawn without replacement; other rows with, as if there were many more like them.
    """
    study = plan.study
    if callable(given):
        return lambda rng, n: _require_normalised(study, given(rng, n), n), FeatureSource()
    if given is not None:
        rows = _require_normalised(study, given, None)
        hashed = hashlib.sha256(rows.astype("<f8").tobytes()).hexdigest()
        if not _is_roster(plan, rows):
            return lambda rng, n: rows[rng.integers(len(rows), size=n)], FeatureSource(len(rows), hashed)
        everybody = plan.answering == len(rows)
        return partial(_choose_invited, rows), FeatureSource(len(rows), hashed, everybody)
    if study.features and not study.assigned:
        raise InputError(
            f"design.kind is {study.design.kind!r}: the study does not say how features are distributed, so nobody can "
            "be simulated. Bring people's features with --features FILE, or in Python with simulate(…, features=X)."
        )
    return partial(draw_features, study), FeatureSource()


def _is_roster(plan: Plan, rows: Floats) -> bool:
    """Whether these are the people the plan was made for, by their hash, in their order."""
    if plan.roster is None:
        return False
    steps = np.ascontiguousarray(np.rint(rows * GRID), dtype="<i4")
    return plan.roster.sha256 == hashlib.sha256(steps.tobytes()).hexdigest()


def _choose_invited(rows: Floats, rng: np.random.Generator, n: int) -> Floats:
    """People of the roster, without replacement while they last; everybody in order if all are needed."""
    return rows if n == len(rows) else rows[rng.choice(len(rows), size=n, replace=n > len(rows))]


def draw_features(study: Study, rng: np.random.Generator, n: int) -> Floats:
    """study.normalise(study.sample_features(rng, n)), without the raw columns in between: making them takes longer."""
    encoding, d = study.declared.encoding, study.dimension
    x = np.empty((d, n))
    if study.design.kind == "unit-ball":
        direction = rng.standard_normal((n, d))
        lengths = np.sqrt(np.einsum("ij,ij->i", direction, direction))
        np.multiply(direction.T, rng.random(n) ** (1.0 / d) / lengths, out=x)
        return x.T
    if encoding.intercept:
        x[0] = 1.0 / encoding.scale
    for feature, place in zip(encoding.features, encoding.slices, strict=True):
        if isinstance(feature, Levels):
            feature.encode(feature.draw_places(rng, n), encoding.scale, x[place])
        elif feature.values is not None:
            feature.encode(feature.draw(rng, n), encoding.scale, x[place])
        else:
            code = rng.random(out=x[place.start])
            code *= 2.0 / encoding.scale
            code -= 1.0 / encoding.scale
    encoding.multiply(x)
    return x.T


def _require_normalised(study: Study, values: Any, n: int | None) -> Floats:
    x = check.matrix("features", values, study.dimension)
    if len(x) == 0 or (n is not None and len(x) != n):
        raise InputError(f"features has {len(x)} rows; {n or 'at least one'} were expected.")
    longest = float(np.linalg.norm(x, axis=1).max())
    if not longest <= 1 + 1e-9:
        raise InputError(f"features has a row of length {longest:g}; normalised features are at most 1 long.")
    return x


# The noise in answers


def sampler(law: Noise) -> Sampler:
    """law.sample, to 1e-14, but faster where it is normal."""
    return partial(_truncated_normal, law) if isinstance(law, TruncatedNormal) else law.sample


def _truncated_normal(law: TruncatedNormal, rng: np.random.Generator, n: int) -> Floats:
    """z = s√2·erfinv(v), v uniform: by polynomial for most."""
    width = law.sd * math.sqrt(2)
    v = rng.random(n)
    z = np.empty(n)
    _inner(v, math.erf(law.bound / width), width, _polynomial(), z)
    outer = np.flatnonzero(np.abs(v) > INNER)
    z[outer] = width * special.erfinv(v[outer])
    return np.clip(z, -law.bound, law.bound, out=z)


@cache
def _polynomial() -> Floats:
    """Coefficients of erfinv(v)/v in 2v²/INNER² − 1."""
    v = INNER * np.sqrt((1 + chebyshev_nodes(ORDER)) / 2)
    return np.ascontiguousarray(monomials(special.erfinv(v) / v))


@njit(error_model="numpy", fastmath={"contract"})
def _inner(v: Floats, top: float, width: float, coefficients: Floats, z: Floats) -> None:
    """Map uniform v on [0, 1) to ±top, and write the noise z where |v| ≤ INNER."""
    for i in range(len(v)):
        v[i] = (2 * v[i] - 1) * top
        t = v[i] * v[i] * (2 / INNER**2) - 1
        total = coefficients[ORDER - 1]
        for k in range(ORDER - 2, -1, -1):
            total = total * t + coefficients[k]
        z[i] = width * v[i] * total
