"""Simulated people: what they know, and the ways in which they answer."""

from truthful.agents.asked_game import AskedGame, asked_game
from truthful.agents.game import Game, Players, game
from truthful.agents.kinds import (
    ASKED,
    KINDS,
    SHARES,
    WORST,
    Agent,
    BestResponder,
    Careless,
    Colluder,
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
    all_kinds,
)
from truthful.agents.response import best_reports
from truthful.agents.share_game import ShareGame, share_game

__all__ = [
    "ASKED",
    "KINDS",
    "SHARES",
    "WORST",
    "Agent",
    "AskedGame",
    "BestResponder",
    "Careless",
    "Colluder",
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
    "all_kinds",
    "asked_game",
    "best_reports",
    "game",
    "share_game",
]
