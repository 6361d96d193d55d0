"""Encryption of answers and payments: the database holds them sealed, and their keys are kept outside it.

The service's key (the file `truthful.key`, or TRUTHFUL_KEY) opens the keys of each study, in `studies/ID/answers.key`,
and those open its answers and payments. A sealed value is bound to its study and its player, so it cannot be opened in
another row; all values of a kind have one length. The study's row names the key in use, so a process that has not yet
noticed a new key cannot write with the old one.

Replaced keys are overwritten. With a key goes everything that was sealed with it and not resealed: withdrawn answers
become unreadable wherever a database, its log or its disk still holds them.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from base64 import b64decode, b64encode
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV
from cryptography.hazmat.primitives.hashes import SHA512
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from sqlalchemy.orm import Session

from truthful.errors import InputError, Refused
from truthful.files import pretty_json, sync, written_whole

#: The file of the service's key, the file of a study's keys, and the variable that can hold the service's key instead.
KEY_FILE, KEYS_FILE, VARIABLE = "truthful.key", "answers.key", "TRUTHFUL_KEY"
FORMAT = "truthful/keys/1"
KEY_BYTES, NONCE_BYTES, NAME_BYTES = 32, 12, 4
#: The number of links whose rows are cached.
MOST_PLACES = 10_000


class Unreadable(Refused):
    """A sealed value belongs to another key or another row, or was changed."""


class StudyKey:
    """One key of a study: seals answers, payments and codes."""

    def __init__(self, study_id: str, secret: bytes) -> None:
        self._study_id = study_id
        self._prefix = sha256(b"name/" + secret).digest()[:NAME_BYTES]
        self.name = self._prefix.hex()
        derived = HKDF(SHA512(), KEY_BYTES + 64, None, b"truthful/answers/1").derive(secret)
        self._values, self._codes = AESGCM(derived[:KEY_BYTES]), AESSIV(derived[KEY_BYTES:])

    def seal(self, kind: str, player: str, plain: bytes) -> bytes:
        """Seal with a fresh nonce: equal answers look different."""
        nonce = os.urandom(NONCE_BYTES)
        return self._prefix + nonce + self._values.encrypt(nonce, plain, self._bound(kind, player))

    def open(self, kind: str, player: str, sealed: bytes) -> bytes:
        nonce, sealed = sealed[NAME_BYTES:][:NONCE_BYTES], sealed[NAME_BYTES + NONCE_BYTES :]
        return self._values.decrypt(nonce, sealed, self._bound(kind, player))

    def seal_code(self, player: str, code: str) -> bytes:
        """Seal deterministically, so that the database can compare codes; being random, they are all different."""
        return self._prefix + self._codes.encrypt(
            code.encode("utf-8", "surrogatepass"), [self._bound("code", player)]
        )

    def open_code(self, player: str, sealed: bytes) -> str:
        return self._codes.decrypt(sealed[NAME_BYTES:], [self._bound("code", player)]).decode()

    def _bound(self, kind: str, player: str) -> bytes:
        return f"{kind}/{self._study_id}/{player}".encode()


@dataclass(frozen=True)
class StudyKeys:
    """A study's keys, as in its file: the latest last, and two of a kind only while one replaces the other.

    Answers and payments are sealed with `secrets`, which are renewed while answers can be withdrawn. `lasting` keys the
    fingerprint of the answers when the study closes, and seals the books of its settlement.
    """

    study_id: str
    lasting: tuple[bytes, ...]
    secrets: tuple[bytes, ...]

    @staticmethod
    def new(study_id: str) -> StudyKeys:
        return StudyKeys(study_id, (new_secret(),), (new_secret(),))

    @property
    def seal(self) -> StudyKey:
        """The latest key for answers and payments."""
        return StudyKey(self.study_id, self.secrets[-1])

    @property
    def books(self) -> StudyKey:
        return StudyKey(self.study_id, self.lasting[-1])

    def by_name(self) -> dict[str, StudyKey]:
        both = (*self.lasting, *self.secrets)
        return {key.name: key for key in (StudyKey(self.study_id, secret) for secret in both)}

    def renewed(self) -> StudyKeys:
        return replace(self, secrets=(*self.secrets, new_secret()))

    def rotated(self) -> StudyKeys:
        return replace(self.renewed(), lasting=(*self.lasting, new_secret()))

    def latest(self) -> StudyKeys:
        """These keys without the replaced ones."""
        return replace(self, secrets=self.secrets[-1:], lasting=self.lasting[-1:])

    def with_seal(self, name: str) -> StudyKeys:
        """These keys with, of `secrets`, only the one of this name, if there is one."""
        kept = tuple(secret for secret in self.secrets if StudyKey(self.study_id, secret).name == name)
        return replace(self, secrets=kept or self.secrets)

    def plain(self) -> bytes:
        return json.dumps(
            {
                name: [_text(secret) for secret in kept]
                for name, kept in (("lasting", self.lasting), ("secrets", self.secrets))
            }
        ).encode()

    @staticmethod
    def read(study_id: str, plain: bytes) -> StudyKeys:
        kept = json.loads(plain)
        lasting, secrets = (tuple(map(b64decode, kept[name])) for name in ("lasting", "secrets"))
        return StudyKeys(study_id, lasting, secrets)


@dataclass(frozen=True)
class AnswerRow:
    """The player's row that an answer is written to, and the name of the key that seals it."""

    study_id: str
    player: str
    seal: str


@dataclass(eq=False)
class Seals:
    """The keys of all studies below a directory. `masters` holds the service's key, then one that is being replaced."""

    studies: Path
    masters: tuple[bytes, ...]
    places: dict[str, AnswerRow] = field(default_factory=dict)
    _known: dict[str, tuple[StudyKeys, dict[str, StudyKey]]] = field(default_factory=dict)
    _loading: threading.Lock = field(default_factory=threading.Lock)

    def path(self, study_id: str) -> Path:
        return self.studies / study_id / KEYS_FILE

    def make(self, study_id: str) -> str:
        """Create a study's keys on the disk, if missing; the name of the key to seal answers with."""
        if not self.path(study_id).exists():
            self.path(study_id).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync(self.studies)
            self.save(StudyKeys.new(study_id))
        return self._of(study_id)[0].seal.name

    def key(self, study_id: str, name: str) -> StudyKey:
        """The key of this name; an unknown name makes it read the file again."""
        for again in (False, True):
            if (found := self._of(study_id, again=again)[1].get(name)) is not None:
                return found
        raise Unreadable(
            f"The answers of study {study_id!r} were sealed with a key that {KEYS_FILE} does not hold. Bring the "
            f"right {str(self.studies)!r} back."
        )

    def keys(self, study_id: str) -> StudyKeys:
        """A study's keys, read from the disk again."""
        return self._of(study_id, again=True)[0]

    def hashing(self, study_id: str) -> bytes:
        """The key of the fingerprint of a study's answers."""
        return self._of(study_id)[0].lasting[-1]

    def open(self, study_id: str, kind: str, player: str, sealed: bytes) -> bytes:
        key = self.key(study_id, sealed[:NAME_BYTES].hex())
        try:
            return key.open(kind, player, sealed)
        except InvalidTag:
            raise _tampering(study_id) from None

    def open_code(self, study_id: str, player: str, sealed: bytes) -> str:
        key = self.key(study_id, sealed[:NAME_BYTES].hex())
        try:
            return key.open_code(player, sealed)
        except InvalidTag:
            raise _tampering(study_id) from None

    def remember(self, link: str, place: AnswerRow) -> None:
        if len(self.places) >= MOST_PLACES:
            self.places.clear()
        self.places[link] = place

    def place(self, link: str) -> AnswerRow | None:
        """The cached row of this link, if there is one and its key still exists."""
        found = self.places.get(link)
        known = None if found is None else self._known.get(found.study_id)
        return found if found is not None and known is not None and found.seal in known[1] else None

    def seal_own(self, about: str, plain: bytes) -> str:
        """Seal data that belongs to no study, with the service's own key."""
        nonce = os.urandom(NONCE_BYTES)
        return _text(nonce + AESGCM(self.masters[0]).encrypt(nonce, plain, about.encode()))

    def open_own(self, about: str, sealed: str) -> bytes | None:
        """Open data sealed by `seal_own`; None if no key of the service opens it."""
        kept = b64decode(sealed)
        for master in self.masters:
            with suppress(InvalidTag):
                return AESGCM(master).decrypt(kept[:NONCE_BYTES], kept[NONCE_BYTES:], about.encode())
        return None

    def save(self, keys: StudyKeys) -> None:
        """Write a study's keys, sealed with the service's own key. The keys in the file before are overwritten."""
        kept = {"format": FORMAT, "sealed": self.seal_own(_about(keys.study_id), keys.plain())}
        replace_secret(self.path(keys.study_id), pretty_json(kept))
        self._known[keys.study_id] = keys, keys.by_name()

    def destroy(self, study_id: str) -> None:
        """Destroy a study's keys: its answers and payments can never be read again."""
        shred(self.path(study_id))
        self._known.pop(study_id, None)
        for link in [link for link, place in list(self.places.items()) if place.study_id == study_id]:
            self.places.pop(link, None)

    def _of(self, study_id: str, *, again: bool = False) -> tuple[StudyKeys, dict[str, StudyKey]]:
        if (found := self._known.get(study_id)) is not None and not again:
            return found
        with self._loading:
            keys = self._read(study_id)
            self._known[study_id] = keys, keys.by_name()
            return self._known[study_id]

    def _read(self, study_id: str) -> StudyKeys:
        path = self.path(study_id)
        try:
            plain = self.open_own(_about(study_id), json.loads(path.read_text(encoding="utf-8"))["sealed"])
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise Unreadable(
                f"The keys of study {study_id!r} cannot be read ({problem}), and without them the answers cannot. "
                f"Bring {str(path)!r} back from a backup."
            ) from None
        if plain is not None:
            return StudyKeys.read(study_id, plain)
        raise Unreadable(
            f"The service's key does not open {str(path)!r}: it is another service's, or was replaced since. Bring the "
            f"{KEY_FILE} back that belongs to this directory, or set {VARIABLE}. Nothing was changed."
        )


def seals_of(session: Session) -> Seals:
    """The keys that belong to a session's database."""
    found: Seals = session.info["seals"]
    return found


def new_secret() -> bytes:
    return secrets.token_bytes(KEY_BYTES)


def open_seals(directory: Path, given: str | None) -> Seals:
    """The keys of a service, opened with the key given or the one in its directory, if there is any."""
    path, studies = directory / KEY_FILE, directory / "studies"
    if given:
        seals = Seals(studies, _secrets(given, VARIABLE))
    elif path.exists():
        seals = Seals(studies, _secrets(path.read_text(encoding="ascii", errors="replace"), str(path)))
    else:
        return Seals(studies, ())
    for study_id in sealed_studies(studies):
        seals.keys(study_id)
    return seals


def sealed_studies(studies: Path) -> list[str]:
    """The studies that have keys."""
    return sorted(path.parent.name for path in studies.glob(f"*/{KEYS_FILE}"))


def write_key(directory: Path, masters: Sequence[bytes]) -> None:
    """Write the service's key to its file, with one that is being replaced on the next line."""
    replace_secret(directory / KEY_FILE, "".join(f"{_text(master)}\n" for master in masters))


def replace_secret(path: Path, text: str) -> None:
    """Write a file readable by its owner alone; its former content is overwritten once the new one is on the disk."""
    with ExitStack() as stack:
        old = stack.enter_context(open(path, "r+b")) if path.exists() else None
        with written_whole(path) as temporary:
            file = stack.enter_context(open(temporary, "xb", opener=_private))
            _write(file, text.encode())
        sync(path.parent)
        if old is not None:
            _blank(old)


def shred(path: Path) -> None:
    """Overwrite a file and remove it. Copies that the disk itself makes are beyond our reach."""
    if path.exists():
        with open(path, "r+b") as file:
            _blank(file)
        path.unlink()
        sync(path.parent)


def _blank(file: BinaryIO) -> None:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    _write(file, b"\0" * size)


def _write(file: BinaryIO, content: bytes) -> None:
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _secrets(text: str, place: str) -> tuple[bytes, ...]:
    """Parse keys in base64. Errors never quote them."""
    try:
        secrets = tuple(b64decode(word, validate=True) for word in text.split())
    except ValueError:
        secrets = ()
    if not secrets or any(len(secret) != KEY_BYTES for secret in secrets):
        raise InputError(
            f"{place} holds no key: give {KEY_BYTES} random bytes in base64, as `openssl rand -base64 {KEY_BYTES}` "
            "prints them."
        )
    return secrets


def _text(secret: bytes) -> str:
    return b64encode(secret).decode()


def _about(study_id: str) -> str:
    return f"{FORMAT}/{study_id}"


def _tampering(study_id: str) -> Unreadable:
    """The error for a changed row. It does not name the player, because errors are logged."""
    return Unreadable(
        f"What the database holds of somebody in study {study_id!r} is not what was sealed: the row was changed, or is "
        "another's. Restore a backup."
    )
