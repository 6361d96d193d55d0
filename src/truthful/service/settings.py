"""How a service is run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from truthful.errors import InputError
from truthful.service.places import Places


@dataclass(frozen=True)
class Settings:
    """What `truthful serve` was told.

    url: where people reach the service, as https://study.example.org; links begin with it. With https, cookies are sent
    over TLS alone. database: a URL; without one, SQLite in the directory. behind_proxy: addresses are those the proxy
    tells, which are used to limit rates and never kept. api_docs: show the machine's description of the pages.
    """

    directory: Path
    url: str = "http://127.0.0.1:8000"
    database: str | None = None
    behind_proxy: bool = False
    api_docs: bool = False

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/") or parts.query:
            raise InputError(
                f"url is {self.url!r}; give what people type before the first slash, as https://study.example.org."
            )

    @property
    def origin(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def secure(self) -> bool:
        return self.url.startswith("https:")

    @property
    def places(self) -> Places:
        return Places(self.directory)

    @property
    def database_url(self) -> str:
        return self.database or self.places.database
