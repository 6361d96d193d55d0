"""Simulated people: what they know, and the ways in which they answer."""

from truthful.agents.game import Game, Players, game
from truthful.agents.kinds import (
    KINDS,
    WORST,
    Agent,
    BestResponder,
    Coordinated,
    CostThreshold,
    Exaggerator,
    Honest,
    Influential,
    OptOut,
    PrivacySeeker,
    Targeting,
    agent,
)
from truthful.agents.response import best_reports

__all__ = [
    "KINDS",
    "WORST",
    "Agent",
    "BestResponder",
    "Coordinated",
    "CostThreshold",
    "Exaggerator",
    "Game",
    "Honest",
    "Influential",
    "OptOut",
    "Players",
    "PrivacySeeker",
    "Targeting",
    "agent",
    "best_reports",
    "game",
]
