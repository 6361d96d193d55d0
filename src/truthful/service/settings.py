"""How a service is run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from truthful.errors import InputError
from truthful.service.places import Places

PORTS = {"http": 80, "https": 443}
LOOPBACK = ("127.0.0.1", "localhost", "::1")


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
        if not _is_origin(self.url):
            raise InputError(
                f"url is {self.url!r}; give what people type before the first slash, as https://study.example.org."
            )

    @property
    def origin(self) -> str:
        return f"{urlsplit(self.url).scheme}://{self._host(urlsplit(self.url).hostname or '')}"

    @property
    def hosts(self) -> frozenset[str]:
        """The names by which browsers know the service; on one's own machine, all that it has for itself."""
        name = urlsplit(self.url).hostname or ""
        return frozenset(map(self._host, LOOPBACK if name in LOOPBACK else (name,)))

    def _host(self, name: str) -> str:
        """A name with our port, as browsers send it: without the port that the scheme has anyway."""
        parts = urlsplit(self.url)
        bare = f"[{name}]" if ":" in name else name
        return bare if parts.port in (None, PORTS[parts.scheme]) else f"{bare}:{parts.port}"

    @property
    def secure(self) -> bool:
        return self.origin.startswith("https:")

    @property
    def places(self) -> Places:
        return Places(self.directory)

    @property
    def database_url(self) -> str:
        return self.database or self.places.database


def _is_origin(url: str) -> bool:
    """Whether it has a scheme and a host, perhaps a port, and nothing else."""
    try:
        parts = urlsplit(url)
        extra = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
        return (
            parts.scheme in PORTS
            and bool(parts.hostname)
            and (parts.port is None or parts.port >= 0)
            and not extra
            and url.isascii()
            and url.isprintable()
            and " " not in url
        )
    except ValueError:  # a port that is none
        return False
