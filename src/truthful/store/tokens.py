"""Secrets that people carry: random, shown once, and kept here only as hashes."""

from __future__ import annotations

import hashlib
import secrets
from base64 import b32encode


def new_token() -> str:
    """256 random bits for a link or a cookie: nobody finds one by trying."""
    return secrets.token_urlsafe(32)


def hashed(token: str) -> str:
    """How a token is kept and looked up. It is random, so a plain hash cannot be turned round."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def new_name() -> str:
    """A name for a study in public addresses: says nothing, and is taken by no other."""
    return secrets.token_hex(6)


def receipt_code() -> str:
    """What opens a player's answer to her alone: as 7KQ4-M2XD, easy to write down. Forty bits: tries are limited."""
    letters = b32encode(secrets.token_bytes(5)).decode()
    return f"{letters[:4]}-{letters[4:]}"
