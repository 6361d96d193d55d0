"""Simulated people: what they know, and the ways in which they answer."""

from truthful.agents.game import Game, Players, game
from truthful.agents.kinds import (
    KINDS,
    Agent,
    BestResponder,
    Coordinated,
    CostThreshold,
    Exaggerator,
    Honest,
    OptOut,
    PrivacySeeker,
    agent,
)
from truthful.agents.response import best_reports

__all__ = [
    "KINDS",
    "Agent",
    "BestResponder",
    "Coordinated",
    "CostThreshold",
    "Exaggerator",
    "Game",
    "Honest",
    "OptOut",
    "Players",
    "PrivacySeeker",
    "agent",
    "best_reports",
    "game",
]
