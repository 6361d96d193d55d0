"""Simulated people: what they know, and the ways in which they answer."""

from truthful.agents.games import (
    AskedGame as AskedGame,
)
from truthful.agents.games import (
    Game as Game,
)
from truthful.agents.games import (
    Players as Players,
)
from truthful.agents.games import (
    ShareGame as ShareGame,
)
from truthful.agents.games import (
    asked_game as asked_game,
)
from truthful.agents.games import (
    best_reports as best_reports,
)
from truthful.agents.games import (
    game as game,
)
from truthful.agents.games import (
    share_game as share_game,
)
from truthful.agents.kinds import (
    ASKED as ASKED,
)
from truthful.agents.kinds import (
    KINDS as KINDS,
)
from truthful.agents.kinds import (
    SHARES as SHARES,
)
from truthful.agents.kinds import (
    WORST as WORST,
)
from truthful.agents.kinds import (
    Agent as Agent,
)
from truthful.agents.kinds import (
    BestResponder as BestResponder,
)
from truthful.agents.kinds import (
    Careless as Careless,
)
from truthful.agents.kinds import (
    Colluder as Colluder,
)
from truthful.agents.kinds import (
    Coordinated as Coordinated,
)
from truthful.agents.kinds import (
    CostThreshold as CostThreshold,
)
from truthful.agents.kinds import (
    Denier as Denier,
)
from truthful.agents.kinds import (
    Exaggerator as Exaggerator,
)
from truthful.agents.kinds import (
    Honest as Honest,
)
from truthful.agents.kinds import (
    Influential as Influential,
)
from truthful.agents.kinds import (
    Misbeliever as Misbeliever,
)
from truthful.agents.kinds import (
    OptOut as OptOut,
)
from truthful.agents.kinds import (
    PrivacySeeker as PrivacySeeker,
)
from truthful.agents.kinds import (
    Targeting as Targeting,
)
from truthful.agents.kinds import (
    agent as agent,
)
from truthful.agents.kinds import (
    all_kinds as all_kinds,
)
