"""Simulated people: what they know, and the ways in which they answer."""

from truthful.agents.game import Game, Players, best_reports, game
from truthful.agents.kinds import (
    KINDS,
    SHARES,
    WORST,
    Agent,
    BestResponder,
    Coordinated,
    CostThreshold,
    Denier,
    Exaggerator,
    Honest,
    Influential,
    Misbeliever,
    OptOut,
    PrivacySeeker,
    Targeting,
    agent,
)
from truthful.agents.share_game import ShareGame, share_game

__all__ = [
    "KINDS",
    "SHARES",
    "WORST",
    "Agent",
    "BestResponder",
    "Coordinated",
    "CostThreshold",
    "Denier",
    "Exaggerator",
    "Game",
    "Honest",
    "Influential",
    "Misbeliever",
    "OptOut",
    "Players",
    "PrivacySeeker",
    "ShareGame",
    "Targeting",
    "agent",
    "best_reports",
    "game",
    "share_game",
]
