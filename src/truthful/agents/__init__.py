"""Simulated people: what they know, and how they answer."""
# ruff: noqa: I001 (a name a line, not a statement)

from truthful.agents.games import (
    AskedGame as AskedGame,
    Game as Game,
    Players as Players,
    ShareGame as ShareGame,
    asked_game as asked_game,
    best_reports as best_reports,
    game as game,
    share_game as share_game,
)
from truthful.agents.kinds import (
    ASKED as ASKED,
    KINDS as KINDS,
    SHARES as SHARES,
    WORST as WORST,
    Agent as Agent,
    BestResponder as BestResponder,
    Careless as Careless,
    Colluder as Colluder,
    Coordinated as Coordinated,
    CostThreshold as CostThreshold,
    Denier as Denier,
    Exaggerator as Exaggerator,
    Honest as Honest,
    Influential as Influential,
    Misbeliever as Misbeliever,
    OptOut as OptOut,
    PrivacySeeker as PrivacySeeker,
    Targeting as Targeting,
    agent as agent,
    all_kinds as all_kinds,
)
