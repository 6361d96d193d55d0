"""The common parts of all pages: the reader's language, its texts and number formats, templates, responses.

Each language has one catalogue of texts: the files of texts/en, texts/de. A key begins with its file's name, as in
`participant.consent`. Texts are plain; markup belongs to templates. `{name}` stands for a value. Texts that depend on a
number have plural forms (`one`, `other`), chosen by the language's rule.
"""

from __future__ import annotations

import csv
import io
import math
import tomllib
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from functools import cache, cached_property, lru_cache, partial
from importlib import resources
from typing import Annotated, Any

from babel import Locale, UnknownLocaleError, negotiate_locale
from babel.dates import format_date, format_time
from babel.numbers import NumberFormatError, format_currency, format_decimal, format_percent, parse_decimal
from fastapi import Depends
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from sqlalchemy.orm import Session
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from truthful.formatting import HUNDREDTHS, cents
from truthful.plan import Plan
from truthful.service.limits import Limits, Pools
from truthful.service.locations import Locations, Settings
from truthful.service.mailer import Mailer
from truthful.service.settle_study import Settler
from truthful.store.database import Database
from truthful.version import __version__

ENGLISH = "en"
#: The number of characters read of an Accept-Language header.
LONGEST_ACCEPTED = 500


@dataclass(frozen=True, eq=False)
class Texts:
    """The catalogue of one language."""

    language: str
    texts: dict[str, Any]

    @cached_property
    def locale(self) -> Locale:
        return Locale.parse(self.language)

    @cached_property
    def name(self) -> str:
        """The language's own name for itself."""
        return (self.locale.get_display_name() or self.language).capitalize()

    def __call__(self, key: str, count: int | None = None, **values: Any) -> str:
        """The text of a key with values filled in; `count` chooses the plural form."""
        text: Any = self.texts
        for part in key.split("."):
            text = text[part]
        if count is not None:
            values["count"] = values.get("count", count)
            text = text[self.locale.plural_form(count)] if isinstance(text, dict) else text
        return str(text).format(**values)


@cache
def languages() -> dict[str, Texts]:
    """All languages, English first."""
    folder = resources.files("truthful.service").joinpath("texts")
    found = {}
    for part in sorted(folder.iterdir(), key=lambda part: (part.name != ENGLISH, part.name)):
        files = {file.name.removesuffix(".toml"): file.read_text(encoding="utf-8") for file in part.iterdir()}
        found[part.name] = Texts(part.name, {name: tomllib.loads(text) for name, text in files.items()})
    return found


def choose_language(cookie: str | None, accepted: str) -> Texts:
    """The language chosen by cookie, else the best one that the browser accepts, else English."""
    known = languages()
    return known[cookie] if cookie in known else _accepted_language(accepted[:LONGEST_ACCEPTED])


@lru_cache(maxsize=256)
def _accepted_language(accepted: str) -> Texts:
    known = languages()
    wanted = sorted((_preference(part) for part in accepted.split(",")[:20]), key=lambda pair: -pair[1])
    try:
        found = negotiate_locale([tag for tag, _ in wanted], known, sep="-")
    except (ValueError, UnknownLocaleError):
        found = None
    return known[found or ENGLISH]


def _preference(part: str) -> tuple[str, float]:
    """A language of an Accept-Language header, with its weight."""
    tag, _, weight = part.strip().partition(";q=")
    try:
        return tag, float(weight or 1)
    except ValueError:
        return tag, 0.0


# Numbers are kept as words: most of those on a page are its study's, and the next reader's page has them too.
@lru_cache(maxsize=1024)
def money(amount: Decimal | float, currency: str, locale: Locale, digits: int | None = None) -> str:
    """An amount with its currency, to the currency's coins or to `digits` decimals."""
    amount += 0  # -0 is 0
    if digits is None:
        return str(format_currency(amount, currency, locale=locale))
    pattern = locale.currency_formats["standard"].pattern.split(";")[0]
    pattern = pattern.replace("0.00", "0." + "0" * digits if digits else "0")
    return str(format_currency(amount, currency, pattern, locale=locale, currency_digits=False))


def small_money(amount: float, currency: str, texts: Texts) -> str:
    """An amount that may be below the smallest coin: in cents where the currency has them, else to four decimals."""
    small = cents(amount, currency)
    if small is None:
        return money(amount, currency, texts.locale, 4 if amount < 1 else None)
    words = texts("shared.cents") if HUNDREDTHS[currency] == "cents" else texts("shared.pence")
    return f"{number(small, texts.locale)} {words}"


@lru_cache(maxsize=1024)
def number(value: float, locale: Locale) -> str:
    """A number with all its digits, up to fifteen."""
    return str(format_decimal(Decimal(f"{value:.15g}") + 0, format="#,##0.###############", locale=locale))


def rounded(value: float, decimals: int, locale: Locale) -> str:
    """A number with this many decimals."""
    exact = Decimal(f"{value:.{decimals}f}")
    pattern = "#,##0" + ("." + "0" * decimals if decimals else "")
    return str(format_decimal(abs(exact) if exact == 0 else exact, format=pattern, locale=locale))


@lru_cache(maxsize=1024)
def percent(share: float, locale: Locale, digits: int = 0) -> str:
    pattern = locale.percent_formats[None].pattern.replace(
        "#,##0", "#,##0" + ("." + "#" * digits if digits else "")
    )
    return str(format_percent(share + 0, format=pattern, locale=locale))


def moment(time: datetime, locale: Locale) -> str:
    """A day and time, in UTC."""
    day = format_date(time, "medium", locale=locale)
    return f"{day}, {format_time(time, 'short', locale=locale)} UTC"


def day(time: date, locale: Locale) -> str:
    """A day, in words."""
    return str(format_date(time, "long", locale=locale))


def read_number(text: str, locale: Locale) -> float | None:
    """Parse a number typed in the reader's language or in plain form; None if it is none."""
    words = text.strip().replace("\u2212", "-").replace(" ", "").replace("\u00a0", "").replace("\u202f", "")
    if "_" in words:  # Decimal would read 1_0 as 10
        return None
    try:
        value = float(parse_decimal(words, locale=locale, strict=True))
    except (NumberFormatError, ValueError, ArithmeticError):  # the last for exponents that no decimal has
        return plain_number(words)
    return value if math.isfinite(value) else None


def plain_number(text: str) -> float | None:
    """Parse a number such as 1234.5 or 1e-3, whatever the language; None if it is none."""
    try:
        value = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return None
    return value + 0.0 if math.isfinite(value) else None  # -0 is 0


#: The cookie of the chosen language, and the lifetime of lasting cookies in seconds.
LANGUAGE, YEAR = "language", 31_536_000

_TEMPLATES = Environment(
    loader=PackageLoader("truthful.service"),
    autoescape=select_autoescape(default=True, default_for_string=True),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)


@dataclass(frozen=True, eq=False)
class Service:
    """A running service."""

    settings: Settings
    database: Database
    settler: Settler
    mailer: Mailer | None = None
    limits: Limits = field(default_factory=Limits)
    pools: Pools = field(default_factory=Pools)

    @cached_property
    def logo(self) -> tuple[bytes, str] | None:
        """The organisation's logo, read once when the service starts."""
        return self.locations.logo()

    @property
    def locations(self) -> Locations:
        return self.settings.locations


def language(request: Request) -> Texts:
    """The texts in the reader's language."""
    return choose_language(request.cookies.get(LANGUAGE), request.headers.get("accept-language", ""))


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Render a template in the reader's language. Its `t` looks up texts; values are escaped."""
    texts = language(request)
    shown = _TEMPLATES.get_template(template).render(
        t=texts,
        language=texts.language,
        languages=languages(),
        version=__version__,
        path=request.url.path,
        money=partial(money, locale=texts.locale),
        small_money=partial(small_money, texts=texts),
        number=partial(number, locale=texts.locale),
        percent=partial(percent, locale=texts.locale),
        moment=partial(moment, locale=texts.locale),
        day=partial(day, locale=texts.locale),
        **{"account": None, **values},
    )
    return HTMLResponse(shown, status, headers={"Vary": "Accept-Language, Cookie"})


@dataclass(frozen=True, eq=False)
class Visit:
    """A request together with the service that handles it."""

    request: Request
    service: Service

    @property
    def who(self) -> str:
        """The name of the signed-in account, or ''."""
        return ""

    @property
    def locale(self) -> Locale:
        return language(self.request).locale

    def plan(self, study_id: str) -> Plan:
        return self.service.locations.plan(study_id)

    def reading(self) -> AbstractContextManager[Session]:
        return self.service.database.reading()

    def writing(self) -> AbstractContextManager[Session]:
        return self.service.database.writing()

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        return page(self.request, template, status=status, **values)

    def remove(self, response: Response, name: str, path: str = "/") -> None:
        """Delete a cookie set by `keep`."""
        secure = self.service.settings.secure
        response.delete_cookie(name, path, secure=secure, httponly=True, samesite="lax")

    def keep(
        self, response: Response, name: str, value: str, seconds: int | None = None, path: str = "/"
    ) -> None:
        """Set a cookie hidden from scripts and other sites' forms; without `seconds`, for this browser session."""
        secure = self.service.settings.secure
        response.set_cookie(
            name, value, max_age=seconds, path=path, secure=secure, httponly=True, samesite="lax"
        )


async def _visit(request: Request) -> Visit:
    """Asynchronous because it never blocks: a plain function would take a thread."""
    return Visit(request, request.app.state.service)


#: For the arguments of a page's function.
Visitor = Annotated[Visit, Depends(_visit)]


class TurnedAway(HTTPException):
    """A request refused before any page handles it; `key` names the text with the reason."""

    def __init__(self, status: int, key: str, **values: Any) -> None:
        super().__init__(status)
        self._key, self._values = key, values

    def page(self, request: Request) -> HTMLResponse:
        problem = language(request)(self._key, **self._values)
        return page(request, "problem.html", status=self.status_code, problem=problem)


def go(path: str) -> RedirectResponse:
    """Redirect to a page after a form, so that a reload sends nothing again."""
    return RedirectResponse(path, 303)


#: The policy of reports and pictures: inline styles, but no scripts, other files, forms or frames.
STYLED = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
HTML, SVG = "text/html", "image/svg+xml"
TOML = "application/toml; charset=utf-8"
#: The media types of downloads, by file name extension.
KINDS = {
    "csv": "text/csv",
    "txt": "text/plain",
    "json": "application/json",
    "toml": TOML,
    "pdf": "application/pdf",
}


def csv_text(*rows: Iterable[object]) -> str:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(rows)
    return written.getvalue()


def download(content: str | bytes, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=KINDS[name.rpartition(".")[2]], headers=headers)


def picture_response(content: str | bytes, kind: str) -> Response:
    """A picture or report, displayed by the browser under a strict policy."""
    return Response(content, media_type=kind, headers={"Content-Security-Policy": STYLED})
