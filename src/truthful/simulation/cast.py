"""Who takes part: shares of agents, turned into as many players of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from truthful import check
from truthful.agents import Agent, Honest, agent
from truthful.errors import InputError


@dataclass(frozen=True)
class Role:
    """An agent, the share of players who act so, and which of them. Players are alike, so they come in order."""

    agent: Agent
    share: float
    players: slice

    @property
    def count(self) -> int:
        return int(self.players.stop - self.players.start)

    def record(self) -> dict[str, Any]:
        """As written in the record of a simulation: all that makes the same agent again."""
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
    """What a dataclass was made of; what was not given is left out."""
    names = [field.name for field in fields(value) if field.init] if is_dataclass(value) else []
    return {name: _written(getattr(value, name)) for name in names if getattr(value, name) is not None}


def _written(value: Any) -> Any:
    if is_dataclass(value):
        return {"class": _name(value), **_parameters(value)}
    return value if isinstance(value, bool | int | float | str) else repr(value)


def cast(agents: Mapping[str | Agent, float] | None, players: int) -> tuple[Role, ...]:
    """Roles for so many players. Shares add up to at most 1; who is left is honest.

    Exact shares, not drawn ones: a plan allows for a share of liars, and these are to have just that share.
    """
    chosen = {_agent(who): _share(who, share) for who, share in (agents or {}).items()}
    left = 1 - sum(chosen.values())
    if left < -1e-9:
        raise InputError(f"The shares of the agents add up to {1 - left:g}; they must not exceed 1.")
    if left > 1e-9:
        chosen[Honest()] = chosen.get(Honest(), 0.0) + left
    ends = np.rint(np.cumsum([0.0, *chosen.values()]) * players).astype(int).tolist()
    return tuple(
        Role(who, share, slice(start, end))
        for (who, share), start, end in zip(chosen.items(), ends, ends[1:], strict=False)
    )


def read_agents(text: str) -> dict[str | Agent, float]:
    """Shares as people write them: `honest=0.9,exaggerator=0.1`."""
    shares: dict[str | Agent, float] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, share = (piece.strip() for piece in part.partition("="))
        who = agent(name)
        try:
            shares[who] = shares.get(who, 0.0) + float(share)
        except ValueError:
            raise InputError(f"{part!r} is not an agent and its share; write, say, {name}=0.1.") from None
    return shares


def _agent(who: str | Agent) -> Agent:
    return agent(who) if isinstance(who, str) else who


def _share(who: str | Agent, share: float) -> float:
    if not 0 <= check.finite(f"The share of {_agent(who).name!r}", share) <= 1:
        raise InputError(f"The share of {_agent(who).name!r} is {share!r}; it must lie between 0 and 1.")
    return float(share)
