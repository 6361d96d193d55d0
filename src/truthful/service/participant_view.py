"""How one participant stands: all that her link may see, which page shows it, and how her payment came about."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from sqlalchemy.orm import Session, defer

from truthful.coins import in_currency, pays
from truthful.release import (
    Receipt,
    Release,
    read_release,
    verify,
)
from truthful.release.verdict import Steps, steps
from truthful.scoring import PAYMENT_STEPS
from truthful.service.offer import Bonus, Earned, bonus_at, earned
from truthful.store import answers, roster, studies
from truthful.store.studies import ENDED, TOLD, Unknown
from truthful.store.tables import Answer, Due, Player, State, StoredStudy
from truthful.study import Study

#: How her payment came about, as it is stored.
SCORED = tuple(name for name in TOLD if name != "group")


@dataclass(frozen=True)
class ParticipantView:
    """A player, her study, and what she has in it so far; `code` is what this browser brings.

    A browser without her code is told what anybody who has the link may know: that she is invited, or that the study
    has closed. So who hands out links does not learn from them what she said, nor whether.
    """

    link: str
    code: str
    stored: StoredStudy
    player: Player
    answer: Answer | None
    due: Due | None

    @property
    def knows(self) -> bool:
        """Whether this browser knows her code."""
        return answers.knows(self.player, self.code)

    @property
    def page(self) -> str:
        """Which page is hers now."""
        if self.stored.state != State.OPEN:
            paid = "cancelled" if self.stored.state == State.CANCELLED else "paid"
            return "shut" if not self.knows else paid if self.due is not None else "closed"
        if self.player.disputed:
            return "disputed"
        if not self.knows:
            return "invited"
        return "question" if self.answer is None else "answered"

    @property
    def may_answer(self) -> bool:
        return self.page in ("question", "answered")

    @property
    def release(self) -> Release:
        """The release she is paid by. Before the study is settled there is none."""
        return read_release(self.released.encode())

    @property
    def released(self) -> str:
        """The same, as it is published."""
        if not self.knows or self.due is None or self.stored.release is None:
            raise Unknown("Nothing is settled.")
        return self.stored.release

    @property
    def owed(self) -> Due:
        """What she is paid."""
        if not self.knows or self.due is None:
            raise Unknown("Nothing is due.")
        return self.due

    @property
    def receipt(self) -> Receipt:
        """What `truthful verify` takes, and nobody but her gets. Of a study that was cancelled there is none."""
        if not self.knows or self.answer is None:
            raise Unknown("There is no answer.")
        owed = self.owed
        record: dict[str, Any] = {
            "player": self.player.player,
            "features": self.player.features,
            "report": self.answer.value,
            "payment": owed.millionths / PAYMENT_STEPS,
        }
        if owed.leverage is None:
            raise Unknown("Nothing was settled.")
        record["prediction"] = self.answer.prediction
        return Receipt(**record, **{name: getattr(owed, name) for name in SCORED})


def participant_view(session: Session, token: str, code: str) -> ParticipantView:
    """Whose link this is, and how she stands, for a browser that brings this code."""
    player = roster.player_of(session, token)
    stored = session.get(StoredStudy, player.study_id, options=[defer(StoredStudy.report)])
    if stored is None:
        raise Unknown("There is no such study.")
    # What is due is shown once it can no longer change: it is stored in the step that makes a study settled.
    owed = studies.payment_of(session, player) if stored.state in ENDED else None
    return ParticipantView(f"/a/{token}", code, stored, player, answers.answer_of(session, player), owed)


#: Where features are the analyst's own random numbers, and no facts about anybody.
ASSIGNED = ("uniform", "unit-ball")


def is_assigned(study: Study) -> bool:
    """Whether what stands for her features was drawn by lot, and is no fact about her."""
    return bool(study.features) and study.design.kind in ASSIGNED


@dataclass(frozen=True)
class Paid:
    """What she is paid, in coins of 10^-digits and exactly, and how that came about.

    It is verified if the exact amount follows from the release and her record, and the coins are those next to it.
    """

    coins: Decimal
    digits: int
    exact: Decimal
    steps: Steps
    taken: bool
    """Whether two numbers are her receipt's, because the sums that they follow from are not published."""
    verified: bool
    half_range: float
    rule: str
    weight: float
    bonus: Bonus | None
    """Of people like her, where answers are yes or no, or ratings."""
    earned: Earned | None
    """The parts of her payment, where she was asked what the others will say."""

    @property
    def plausible(self) -> bool:
        """Whether what the others say was thought possible."""
        if self.bonus is None or self.bonus.plausible is None:
            return True
        least, most = self.bonus.plausible
        return least <= self.steps.peer_prediction <= most


def explain_payment(view: ParticipantView) -> Paid:
    """What she is paid, recomputed."""
    release, receipt, due = view.release, view.receipt, view.owed
    study, found = release.declared_study(), steps(release, receipt)
    mechanism = release.mechanism(study)
    return Paid(
        coins=in_currency(due.coins, due.digits),
        digits=due.digits,
        exact=Decimal(due.millionths) / PAYMENT_STEPS,
        steps=found,
        taken=release.inverse is None,
        verified=verify(release, receipt).verified and pays(due.coins, due.millionths, due.digits),
        half_range=study.half_range,
        rule=release.payment.rule,
        weight=release.payment.b,
        bonus=bonus_at(mechanism, study, np.array([found.x])),
        earned=earned(mechanism, study, found),
    )
