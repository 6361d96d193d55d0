"""How one participant stands: all that her link may see, and which page shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session, defer

from truthful.payments import PAYMENT_STEPS
from truthful.release import AnyReceipt, AnyRelease, Receipt, ReceiptOfHalves, read_release
from truthful.store import answers, due, roster
from truthful.store.surveys import ENDED, Unknown
from truthful.store.tables import Answer, Due, Player, State, Survey

#: How her payment came about, as it is stored.
SCORED = (
    *("leverage", "noise_scale", "peer_prediction", "own_prediction"),
    *("others_answer", "others_prediction", "surprise"),
)


@dataclass(frozen=True)
class Standing:
    """A player, her study, and what she has in it so far; `code` is what this browser brings.

    A browser without her code is told what anybody who has the link may know: that she is invited, or that the study
    has closed. So who hands out links does not learn from them what she said, nor whether.
    """

    link: str
    code: str
    survey: Survey
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
        if self.survey.state != State.OPEN:
            paid = "cancelled" if self.survey.state == State.CANCELLED else "paid"
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
    def release(self) -> AnyRelease:
        """The release she is paid by. Before the study is settled there is none."""
        return read_release(self.released.encode())

    @property
    def released(self) -> str:
        """The same, as it is published."""
        if not self.knows or self.due is None or self.survey.release is None:
            raise Unknown("Nothing is settled.")
        return self.survey.release

    @property
    def owed(self) -> Due:
        """What she is paid."""
        if not self.knows or self.due is None:
            raise Unknown("Nothing is due.")
        return self.due

    @property
    def receipt(self) -> AnyReceipt:
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
        if owed.group is not None:
            return ReceiptOfHalves(**record, group=1 if owed.group else 0)
        if owed.leverage is None:
            raise Unknown("Nothing was settled.")
        record["prediction"] = self.answer.prediction
        return Receipt(**record, **{name: getattr(owed, name) for name in SCORED})


def standing(session: Session, token: str, code: str) -> Standing:
    """Whose link this is, and how she stands, for a browser that brings this code."""
    player = roster.player_of(session, token)
    survey = session.get(Survey, player.survey_id, options=[defer(Survey.report)])
    if survey is None:
        raise Unknown("There is no such study.")
    # What is due is shown once it can no longer change: it is stored in the step that makes a study settled.
    owed = due.payment_of(session, player) if survey.state in ENDED else None
    return Standing(f"/a/{token}", code, survey, player, answers.answer_of(session, player), owed)
