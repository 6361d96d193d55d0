"""What whoever starts a service is told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from truthful.service.settings import LOOPBACK


@dataclass(frozen=True)
class Opening:
    """Where a service is, and the links that nobody is shown again."""

    url: str
    directory: str
    database: str
    running_already: bool
    sign_in_link: str | None
    participant_link: str | None = None
    public_page: str | None = None

    def words(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.running_already:
            yield "The service is running already; this link works there."
        else:
            yield f"The service answers at {self.url}. Ctrl-C stops it."
            yield f"It keeps studies and ledgers in {self.directory}, answers in {self.database}."
            if self.url.startswith("http:") and urlsplit(self.url).hostname not in LOOPBACK:
                yield (
                    "Warning: without TLS, answers and passwords can be read on the way. Put a proxy with TLS in "
                    "front, and give its address: --url https://…"
                )
        if self.sign_in_link is not None:
            yield f"\nThe analyst signs in with this link, once, within a week:\n  {self.sign_in_link}"
        elif not self.running_already:
            yield "\nSign in there. If the password is lost: truthful serve --new-link"
        if self.participant_link is not None:
            yield f"\nA demo study is open. Answer as one of its invented people:\n  {self.participant_link}"
            yield f"Its public page:\n  {self.public_page}"
            yield "Then sign in as the analyst, close the study and see it settled."
