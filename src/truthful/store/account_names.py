"""Names of accounts: names that readers could confuse with another are refused, with the reason.

Participants know their payer by this name, and the audit log identifies people by it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from truthful.errors import InputError, Refused
from truthful.store.audit_log import OPERATOR

LONGEST = 100
#: Names that the audit log uses for events without a signed-in account.
RESERVED = ("service", OPERATOR, "demo")
#: Letters and marks that are invisible.
INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
#: Groups of look-alikes: the first letter of each group, then letters of other scripts and signs that resemble it.
_ALIKE = (
    "aаαɑ eеҽ oоοօ0 pрρ cсϲ yуγү xхχ iіιıɪ jјϳ sѕ hһ dԁ qԛ wԝ kκк vνѵ nո uսυ gɡ lӏ1I|ǀ tτ rг zᴢ bЬ "
    "AАΑ BВΒ EЕΕ KКΚ MМΜ HНΗ OОΟ PРΡ CСϹ TТΤ XХΧ YУΥҮ ZΖ NΝ SЅ JЈ GԌ"
)
_LIKE = {ord(sign): group[0] for group in _ALIKE.split() for sign in group[1:]}


def require_name(name: str) -> str:
    """The name, if readers can tell its characters and type them; InputError if not."""
    if not 0 < len(name.strip()) <= LONGEST or len(name) > LONGEST:
        raise InputError(f"The name has {len(name.strip())} characters; give 1 to {LONGEST}.")
    if not name.isprintable() or INVISIBLE.search(name):
        raise InputError(
            f"The name {name!a} holds characters that cannot be seen. Type it again without them."
        )
    if name != " ".join(name.split()):
        raise InputError(f"The name {name!r} has spaces at its ends, or two in a row. Leave them out.")
    if (plain := unicodedata.normalize("NFKC", name)) != name:
        raise InputError(
            f"The name {name!r} is written in other characters than {plain!r}. Write it like that."
        )
    if not name[0].isalnum():
        raise InputError(f"The name {name!r} begins with {name[0]!r}. Begin it with a letter or a digit.")
    if len(scripts := _scripts(name)) > 1:
        raise InputError(
            f"The name {name!r} mixes {' and '.join(scripts)} letters, which can look alike. Use one alphabet."
        )
    return name


def require_unlike(name: str, others: Iterable[str]) -> None:
    """Refuse a name that readers could mistake for one of the others, or for a reserved one."""
    looks = _look_alikes(name)
    for other in (*RESERVED, *others):
        if looks & _look_alikes(other):
            raise Refused(
                f"The name {name!r} looks like {other!r}, which is taken. Choose one that differs more."
            )


def _scripts(name: str) -> list[str]:
    """The alphabets in a name, of letters that have capitals: other letters are not mistaken for them."""
    letters = (letter for letter in name if letter.lower() != letter.upper())
    return sorted({unicodedata.name(letter, "unknown").split()[0].capitalize() for letter in letters})


def _look_alikes(name: str) -> set[str]:
    """The forms of a name that are compared: without case, as written and with look-alikes replaced."""
    shape = unicodedata.normalize("NFKC", name).translate(_LIKE)
    return {unicodedata.normalize("NFKC", text.casefold()).replace("rn", "m") for text in (name, shape)}
