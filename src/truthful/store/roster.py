"""The roster: the people asked, their verified features, and their personal links.

Rosters come as CSV files, checked as intake checks reports. Ids are text, kept exactly. They return in files that are
opened in spreadsheets (links, payments), so ids that a spreadsheet would run as formulas are refused here, where they
enter, instead of being escaped there.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unicodedata import normalize

import numpy as np
import pyarrow as pa
from sqlalchemy import ColumnElement, and_, bindparam, delete, func, insert, select, update
from sqlalchemy.orm import Session

from truthful.errors import InputError, Refused
from truthful.files import sha256
from truthful.intake import Intake, number_columns, open_reports, report_columns
from truthful.intake.duplicates import later_records
from truthful.intake.rules import quote
from truthful.settlement.checks import FEWEST_ALIKE
from truthful.store import answers
from truthful.store.accounts import INVISIBLE, hash_token, new_token
from truthful.store.answers import OpenedAnswer
from truthful.store.audit_log import log
from truthful.store.seals import Unreadable, seals_of
from truthful.store.studies import NotNow, OpenedDue, Unknown, find, lock_draft, open_due
from truthful.store.tables import Answer, Due, ErasedLink, Mail, Player, State, StoredStudy, Table
from truthful.study import Study
from truthful.study.declaration import PLAYER, PREDICTION

Features = Mapping[str, Any]
People = Mapping[str, Features]
FORMULA = ("=", "+", "-", "@", "\u2212")
LONGEST_ID = 200
#: The optional column of e-mail addresses, to which links are mailed. It is not a feature.
EMAIL = "email"


def columns(study: Study) -> list[str]:
    return [PLAYER, *(feature.name for feature in study.features)]


def read(study: Study, path: Path) -> dict[str, dict[str, Any]]:
    """The features of a CSV file's people, by player; BadReports if any record is bad."""
    with open_reports(path, columns(study), numbers=number_columns(study)) as rows:
        if unknown := [name for name in rows.extra if name != EMAIL]:
            raise InputError(
                f"There are columns that the study does not have: {', '.join(map(repr, unknown))}. Leave them out: "
                "what is not asked for is not kept."
            )
        ids = [player for batch in rows.batches() for player in batch.column(PLAYER).to_pylist()]
        first_row = rows.place.first_row
        _require_plain(ids, first_row)
        named = ((row, player) for row, player in enumerate(ids, first_row) if player.strip())
        intake = Intake(study, repeats=later_records(named), place=rows.place)
        people = dict(_check_records(study, intake, rows.batches(), first_row))
        intake.finish()
    return people


def feature_columns(study: Study, people: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """People's features as Arrow columns, by name."""
    return {
        feature.name: pa.array(
            [features[feature.name] for features in people],
            pa.float64() if feature.levels is None else pa.string(),
        )
        for feature in study.features
    }


def _check_records(
    study: Study, intake: Intake, batches: Iterable[Any], row: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each record that intake accepts, by player. Its missing answer is filled in with the lowest, always valid one."""
    least = {study.response.name: study.response.low}
    if study.levels is not None:
        least[PREDICTION] = study.prediction_range[0]
    for batch in batches:
        fillers = [pa.array(np.full(batch.num_rows, value)) for value in least.values()]
        report = pa.RecordBatch.from_arrays([*batch.columns, *fillers], names=list(report_columns(study)))
        checked = intake.check(report, row)
        for player, record in zip(checked.players.to_pylist(), checked.records.to_pylist(), strict=True):
            yield player, {name: value for name, value in record.items() if name not in least}
        row += batch.num_rows


def require_common_levels(study: Study, people: Iterable[Mapping[str, Any]]) -> None:
    """Refuse, before anything is planned, a roster with which the study could never be settled.

    Sums over features are published, and would single out people with a rare level.
    """
    declared = study.declared.privacy
    known = declared is not None and declared.features_public
    if study.protects != "answers" or not study.publishes_matrix or known:
        return
    counted = Counter((f.name, row[f.name]) for row in people for f in study.features if f.levels is not None)
    for feature in study.features:
        for level in feature.levels or ():
            if counted[feature.name, level] < FEWEST_ALIKE:
                raise Refused(
                    f"{feature.name} is {level!r} for {counted[feature.name, level]} of these people, and sums over "
                    f"facts are published: they would give away fewer than {FEWEST_ALIKE}. Put the group together with "
                    "another, or say that sums are not published, or that the facts are no secret."
                )


def _require_plain(ids: Iterable[str], first_row: int) -> None:
    for row, player in enumerate(ids, first_row):
        if len(player) > LONGEST_ID:
            raise InputError(
                f"Row {row}: the player's id has {len(player):,} characters; give {LONGEST_ID} or fewer."
            )
        if not player.isprintable() or INVISIBLE.search(player):
            raise InputError(
                f"Row {row}: the player's id {player!a} holds a character that cannot be seen. Leave it out."
            )
        # As a spreadsheet may read it: full-width signs count as signs, and leading blanks are skipped.
        if normalize("NFKC", player).lstrip().startswith(FORMULA):
            raise InputError(
                f"Row {row}: the player's id {quote(player)} begins with {player.lstrip()[0]!r}, which a spreadsheet "
                "takes for a formula when you open files of links or payments. Begin it with a letter or a digit."
            )
        if ";" in normalize("NFKC", player):
            raise InputError(
                f"Row {row}: the player's id {quote(player)} holds a semicolon, at which spreadsheets in many "
                "languages begin another cell when you open files of links or payments. Leave it out."
            )


def add(session: Session, study_id: str, who: str, people: People, most: int) -> None:
    """Add people to the roster of an open study: all of them or, after an error, none.

    Players who dispute their features are corrected by being added again. Nobody else can change: the features that
    she was shown when she consented stay true.
    """
    _require_open(session, study_id)
    brought = select(Player.player, Player.disputed).where(Player.study_id == study_id)
    there = {row.player: row.disputed for row in session.execute(brought)}
    known = [player for player in people if player in there]
    if fixed := [player for player in known if not there[player]]:
        raise InputError(
            f"Player {fixed[0]!r} is on the roster already ({len(fixed):,} of those brought are), and has not said "
            "that her features are wrong. Bring only new people, and those who have."
        )
    if len(there) + len(people) - len(known) > most:
        raise Refused(
            f"The roster would have {len(there) + len(people) - len(known):,} people, but the plan is for {most:,} and "
            f"its budget covers no more. Bring at most {most - len(there):,} new people."
        )
    for player in known:
        session.execute(
            update(Player)
            .where(Player.study_id == study_id, Player.player == player)
            .values(
                features=dict(people[player]),
                disputed=False,
                consented=None,
                sealed_code=None,
                document=None,
            )
        )
    _insert(session, study_id, {player: people[player] for player in people if player not in there})
    log(session, who, "brought a roster", study_id)


def replace(session: Session, study_id: str, who: str, people: People, study: Study) -> None:
    """Replace the roster of a draft. A plan that was made for the earlier people is removed."""
    stored = lock_draft(session, study_id)
    clear(session, stored)
    stored.roster = _hash(people, study)
    _insert(session, study_id, people)
    log(session, who, "brought a roster", study_id)


def _insert(session: Session, study_id: str, people: People) -> None:
    rows = [
        {"study_id": study_id, "player": player, "features": dict(features), "disputed": False}
        for player, features in people.items()
    ]
    if rows:  # into the table: the mapped class takes twice as long, blocking SQLite's other writers
        session.connection().execute(insert(Table.metadata.tables[Player.__tablename__]), rows)


def clear(session: Session, stored: StoredStudy) -> None:
    for kind in (Mail, Player):
        session.execute(delete(kind).where(kind.study_id == stored.id))
    stored.roster = stored.plan = None


def features(session: Session, study_id: str) -> list[Features]:
    rows = select(Player.features).where(Player.study_id == study_id).order_by(Player.player)
    return list(session.scalars(rows))


def people(session: Session, study_id: str) -> dict[str, Features]:
    rows = select(Player.player, Player.features).where(Player.study_id == study_id).order_by(Player.player)
    return {row.player: row.features for row in session.execute(rows)}


def in_terms_of(after: Study, before: Study, people: People) -> dict[str, dict[str, Any]]:
    """The people of `before`, adapted to a study that lacks some of its features or has merged levels of them."""
    names: dict[str, dict[str, str]] = {}
    levels = {feature.name: feature.levels or () for feature in before.features}
    for feature in after.features:
        had, has = set(levels[feature.name]), set(feature.levels or ())
        names[feature.name] = dict.fromkeys(had - has, next(iter(has - had), ""))
    return {
        player: {name: renamed.get(row[name], row[name]) for name, renamed in names.items()}
        for player, row in people.items()
    }


def fits(session: Session, stored: StoredStudy, study: Study) -> bool:
    """Whether a draft's roster was checked against the features that it declares now."""
    return _hash(people(session, stored.id), study) == stored.roster


def _hash(people: People, study: Study) -> str:
    """A hash of people and of the declarations that their features were checked against."""
    unchecked = {"sensitive", "reference", "values", "probabilities"}
    checked = [feature.model_dump(mode="json", exclude=unchecked) for feature in study.features]
    return sha256({"people": {player: dict(people[player]) for player in sorted(people)}, "checked": checked})


def invite(session: Session, study_id: str, who: str, *, again: bool = False) -> list[tuple[str, str]]:
    """New links for everybody without one or, with `again`, for everybody: old links then stop working.

    The links can be read now and never again: only their hashes are stored.
    """
    _require_open(session, study_id)
    asked = select(Player.player).where(Player.study_id == study_id).order_by(Player.player)
    players = list(session.scalars(asked if again else asked.where(Player.link.is_(None))))
    links = [(player, new_token()) for player in players]
    if links:
        session.execute(
            update(Player),
            [
                {"study_id": study_id, "player": player, "link": hash_token(token), "salt": None}
                for player, token in links
            ],
        )
        log(session, who, "replaced all links" if again else "made links", study_id)
    return links


def derive_link(player: Player, key: bytes) -> str | None:
    """The token of a player's link, made now if she has none; None if her link was random and handed out in a file.

    It is derived from a key of her study, so that it can be mailed again, or given to her when she comes from a panel,
    while the database holds only its hash.
    """
    if player.link is None:
        player.salt = secrets.token_hex(16)
        player.link = hash_token(derive_token(key, player.player, player.salt))
    token = derive_token(key, player.player, player.salt or "")
    return token if hash_token(token) == player.link else None


def derive_token(key: bytes, player: str, salt: str) -> str:
    made = hmac.digest(key, f"{salt}/{player}".encode(), "sha256")
    return urlsafe_b64encode(made).decode().rstrip("=")


def holds(session: Session, study_id: str, player: str) -> bool:
    return session.get(Player, (study_id, player)) is not None


def enter(session: Session, study_id: str, player: str, key: bytes) -> str:
    """The token of a player who comes from a panel, by her id there.

    Refused if her link is mailed: the analyst knows everybody's id and must not obtain mailed links.
    """
    stored = find(session, study_id, lock=True)
    found = session.get(Player, (study_id, player))
    if found is None or stored.panel is None or (found.link is None and stored.state != State.OPEN):
        raise Unknown("Nobody with this id is asked.")
    mailed = session.get(Mail, (study_id, player)) is not None
    if mailed or (token := derive_link(found, key)) is None:
        raise Refused("You were sent a personal link. Please use that one.")
    return token


def disputes(session: Session, study_id: str) -> Iterator[str]:
    """The players who dispute their features."""
    yield from session.scalars(
        select(Player.player).where(Player.study_id == study_id, Player.disputed).order_by(Player.player)
    )


class Standing(NamedTuple):
    """A player, her study without its files, her answer, her payment, and the code that opens both."""

    player: Player
    study: StoredStudy
    answer: OpenedAnswer | None
    due: OpenedDue | None
    code: str | None


def standing(session: Session, token: str) -> Standing:
    """The standing of the player with this link, in one consistent read.

    For reading only: every page of hers begins here, and to be fast the rows are not tracked by the session.
    """
    try:
        return _standing(session, token)
    except Unreadable:
        # The study's key was renewed between our reads of the row and of the key.
        session.rollback()
        return _standing(session, token)


def _standing(session: Session, token: str) -> Standing:
    found = session.connection().execute(_STANDING_QUERY, {"link": hash_token(token)}).first()
    if found is None:
        return _erased(session, token)
    values, seals = iter(found), seals_of(session)
    player, study, answer, due = (_read(table, names, values) for table, names in _STANDING_COLUMNS.items())
    return Standing(
        player,
        study,
        answers.open_answer(seals, answer) if answer.player else None,
        open_due(seals, due) if due.player else None,
        answers.code_of(session, player),
    )


def _erased(session: Session, token: str) -> Standing:
    """The standing of a player whose data were erased: of her, only the hash of this link is left."""
    gone = session.get(ErasedLink, hash_token(token))
    if gone is None:
        raise Unknown("This link leads nowhere.")
    nobody = Player(study_id=gone.study_id, player="", features={}, disputed=False)
    return Standing(nobody, find(session, gone.study_id), None, None, None)


def _read(table: type[Any], names: Sequence[str], values: Iterator[Any]) -> Any:
    """A row of this table, detached from any session, with its columns taken from the next values."""
    row = object.__new__(table)
    row.__dict__.update(zip(names, values, strict=False))
    return row


def _of_player(table: type[Answer] | type[Due]) -> ColumnElement[bool]:
    return and_(table.study_id == Player.study_id, table.player == Player.player)


_FILES = ("draft", "declaration", "plan", "report", "mail")
#: The columns that a standing needs, by table.
_STANDING_COLUMNS: dict[type[Any], list[str]] = {
    table: [column.key for column in table.__table__.c if column.key not in _FILES]
    for table in (Player, StoredStudy, Answer, Due)
}
_STANDING_QUERY = (
    select(*(table.__table__.c[name] for table, names in _STANDING_COLUMNS.items() for name in names))
    .select_from(Player)
    .join(StoredStudy, StoredStudy.id == Player.study_id)
    .outerjoin(Answer, _of_player(Answer))
    .outerjoin(Due, _of_player(Due))
    .where(Player.link == bindparam("link"))
)


def size(session: Session, study_id: str) -> int:
    return session.scalar(select(func.count()).select_from(Player).where(Player.study_id == study_id)) or 0


def _require_open(session: Session, study_id: str) -> None:
    """Lock an open study, so that changes of its roster and its closing take turns."""
    stored = find(session, study_id, lock=True)
    if stored.state != State.OPEN:
        raise NotNow(f"The study is {stored.state}; people can be brought and invited only while it is open.")
