"""The commands of whoever runs a service: the same door as `cli`, for another reader."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from truthful import options
from truthful.errors import InputError

if TYPE_CHECKING:
    from truthful.service.locations import Provider

app = typer.Typer()


@app.command(epilog="Example: truthful serve my-service --demo")
def serve(
    directory: options.ServiceDirectory = Path("truthful-service"),
    host: options.Host = "127.0.0.1",
    port: options.Port = 8000,
    url: options.Url = None,
    database: options.DatabaseUrl = None,
    demo: options.WithDemo = False,
    new_link: options.NewLink = False,
    analyst: options.AnalystName = "analyst",
    behind_proxy: options.BehindProxy = False,
    workers: options.Workers = 1,
    log_format: options.LogFormat = options.LogForm.WORDS,
    api_docs: options.ApiDocs = False,
    smtp: options.SmtpServer = None,
    smtp_user: options.SmtpUser = None,
    mail_from: options.MailFrom = None,
    require_second_factor: options.RequireSecondFactor = False,
    oidc_issuer: options.OidcIssuer = None,
    oidc_client_id: options.OidcClient = None,
    oidc_only: options.OidcOnly = False,
    as_json: options.AsJson = False,
) -> None:
    """Run studies on the web: invite people, collect answers, settle, publish, pay."""
    with _service_installed("The service needs"):
        from truthful.service import server
        from truthful.service.locations import Settings, Smtp
    password = os.environ.get("TRUTHFUL_SMTP_PASSWORD")
    mail = None if smtp is None else Smtp.read(smtp, mail_from, smtp_user, password)
    settings = Settings(
        directory,
        server.reached_at(url, host, port),
        database,
        behind_proxy,
        api_docs,
        mail,
        require_second_factor,
        str(log_format),
        _provider(oidc_issuer, oidc_client_id, oidc_only),
        not oidc_only,
    )

    def tell(told: server.Opening) -> None:
        print(json.dumps(asdict(told)) if as_json else told.words(), flush=True)

    server.serve(
        settings,
        host=host,
        port=port,
        analyst=analyst,
        new_link=new_link,
        demo=demo,
        tell=tell,
        workers=workers,
    )


@app.command(epilog="Example: truthful rotate-key my-service")
def rotate_key(
    directory: options.KeptDirectory,
    database: options.DatabaseUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Replace the key of a service that is stopped, and seal everything again; older backups need the old key."""
    with _service_installed("The service needs"):
        from truthful.service import keeping
        from truthful.service.locations import Settings
    sealed = keeping.rotate(Settings(directory, database=database))
    if as_json:
        print_json({"directory": str(directory), "studies": sealed})
    else:
        print(f"The key was replaced, and {sealed} studies are sealed with new ones. Make a new backup now.")


@app.command(
    epilog="Example: truthful bots http://127.0.0.1:8000/welcome/TOKEN --players 500 --mix honest=0.9,liar=0.1"
)
def bots(
    url: options.BotsUrl,
    players: Annotated[int, typer.Option(help="How many participants to invent.")] = 500,
    study: options.BotsStudy = None,
    mix: options.Mix = "honest=0.9,liar=0.1",
    name: options.AnalystName = "analyst",
    password: options.Password = None,
    seed: Annotated[int, typer.Option(help="Invent the same people again.")] = 1,
    as_json: options.AsJson = False,
) -> None:
    """Rehearse a whole study over HTTP: programs invite, answer, close, publish and check every payment."""
    with _service_installed("Bots need"):
        from truthful.service.rehearsal import rehearse
    outcome = rehearse(
        url,
        players=players,
        mix=mix,
        name=name,
        password=password,
        seed=seed,
        tell=quiet if as_json else print,
        study_file=study,
    )
    if as_json:
        print_json(outcome.record())
    else:
        print(outcome.words())
    if not outcome.whole:
        raise typer.Exit(1)


def print_json(record: Any) -> None:
    print(json.dumps(record, indent=2, ensure_ascii=False))


@app.command(epilog="Example: truthful identity my-service ada ada@example.org")
def identity(
    directory: options.ServiceDirectory,
    name: Annotated[str, typer.Argument(help="The account's name.")],
    known_as: options.AccountIdentity,
    database: options.DatabaseUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Let somebody sign in by the OpenID provider too, as this person; one that was set before ends."""
    with _service_installed("The service needs"):
        from truthful.service import server
        from truthful.service.locations import Settings
    server.set_identity(Settings(directory, database=database), name, known_as)
    told = f"{known_as} signs in as {name}."
    print_json({"name": name, "identity": known_as}) if as_json else print(told)


def _provider(issuer: str | None, client_id: str | None, alone: bool) -> Provider | None:
    """Who vouches for people, if anybody does."""
    if issuer is None:
        if alone or client_id is not None:
            raise InputError("No provider is named: add --oidc-issuer, as https://login.example.org.")
        return None
    with _service_installed("OpenID Connect needs", "oidc"):
        from truthful.service import openid  # noqa: F401
        from truthful.service.locations import Provider
    return Provider.read(issuer, client_id, os.environ.get("TRUTHFUL_OIDC_SECRET"))


@contextmanager
def _service_installed(needs: str, extra: str = "service") -> Iterator[None]:
    """What only the packages of an extra can do is refused where they are missing."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise InputError(
            f"{needs} {missing.name}, which is not installed: pip install 'truthful[{extra}]'"
        ) from None


def quiet(message: str) -> None:
    """Say nothing: the output is one JSON record."""
