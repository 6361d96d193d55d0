"""The commands of whoever runs a service: the same door as `cli`, for another reader."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from truthful import options
from truthful.errors import InputError, Refused
from truthful.formatting import command, plural

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from truthful.service.locations import Provider, Settings

app = typer.Typer()


@app.command(epilog="Example: truthful serve my-service --demo")
def serve(
    directory: options.ServiceDirectory = Path("truthful-service"),
    host: options.Host = "127.0.0.1",
    port: options.Port = 8000,
    url: options.Url = None,
    database: options.DatabaseUrl = None,
    demo: options.WithDemo = False,
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
    if smtp is None and (given := mail_from or smtp_user):
        raise InputError(f"There is {given!r}, but no mail server: add --smtp, as mail.example.org:587.")
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
        print(f"The key was replaced. Studies sealed with new keys: {sealed:,}. Make a new backup now.")


@app.command(epilog="Example: truthful purge my-service 3f9c2a7be104")
def purge(
    directory: options.KeptDirectory,
    study: Annotated[str, typer.Argument(help="The study, as in its public address: /s/STUDY.")],
    unpaid: Annotated[
        bool, typer.Option("--unpaid", help="Erase even if payments are not marked as sent.")
    ] = False,
    database: options.DatabaseUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Erase for good what a service holds of a study's people, once it has ended; the result stays."""
    with _service_installed("The service needs"):
        from truthful.service import purging
        from truthful.service.locations import Settings
    done = purging.purge_from(Settings(directory, database=database), study, unpaid=unpaid)
    if as_json:
        print_json({"study": study, **done.record()})
    else:
        print(
            f"Erased what was held of {done.totals['people']:,} paid people. The result and the totals stay."
        )


@app.command(epilog="Example: truthful backup my-service backup.zip")
def backup(
    directory: options.KeptDirectory,
    file: options.NewBackup,
    database: options.DatabaseUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Copy all that a service keeps into one new file, while it runs. The service's key opens it and is not in it."""
    with _service_installed("The service needs"):
        from truthful.service import backups
        from truthful.service.locations import Settings
    made = backups.back_up(Settings(directory, database=database), file)
    print_json(asdict(made)) if as_json else print(
        f"Wrote {file}: {made.words()}.\nNobody can read or restore it without the service's key (truthful.key, or "
        "TRUTHFUL_KEY), which is not in it. Keep a copy of the key elsewhere, where no backups are."
    )


@app.command(epilog="Example: truthful restore backup.zip restored-service")
def restore(
    file: options.KeptBackup,
    directory: options.RestoredDirectory,
    database: options.DatabaseUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Make a service from a backup, in a new directory. The original must not run again: both would take answers."""
    with _service_installed("The service needs"):
        from truthful.service.locations import Settings
        from truthful.service.restoring import restore as restored
    found = restored(file, Settings(directory, database=database))
    print_json(asdict(found)) if as_json else print(
        f"Restored {directory} as it was on {found.made}: {found.words()}.\n"
        "The service that was backed up must not run again: both would take answers, and of different answers in both "
        "there would be two results. Studies that were closed go on to the same result.\n"
        "Everybody signs in again, and links to sign in are void. What was purged, changed or taken back after that "
        "time is here again: see to it before you start the service."
    )


@app.command(
    epilog="Example: truthful bots http://127.0.0.1:8000/welcome/TOKEN --players 500 --mix honest=0.9,liar=0.1"
)
def bots(
    url: options.BotsUrl,
    players: Annotated[int, typer.Option(help="How many participants to invent.")] = 500,
    study: options.BotsStudy = None,
    payer: options.PayerLink = None,
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
        payer_link=payer,
    )
    if as_json:
        print_json(outcome.record())
    else:
        print(outcome.words())
    if not outcome.whole:
        raise typer.Exit(1)


account = typer.Typer(
    help="Who signs in to a service, and the studies to which they have access.", no_args_is_help=True
)
app.add_typer(account, name="account")


@account.command("add", epilog="Example: truthful account add my-service 'Accounts office' --role payer")
def add_account(
    directory: options.ExistingService,
    name: options.AccountName,
    role: options.AccountRole,
    url: options.LinkUrl = "http://127.0.0.1:8000",
    database: options.DatabaseUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Let somebody sign in, by a link that works once. Only this command makes accounts; no page does."""
    with _service(directory, url, database) as (settings, session):
        from truthful.store import accounts
        from truthful.store.tables import Role

        if accounts.find_by_name(session, name) is not None:
            again = command("account", "link", directory, name)
            raise InputError(f"There is an account {name!r} already. A new link for it: {again}")
        made = accounts.account(session, name, Role(role), OPERATOR)
        link = f"{settings.origin}/welcome/{accounts.new_link(session, made, OPERATOR)}"
    _tell_link(name, role, link, as_json)


@account.command("link", epilog="Example: truthful account link my-service analyst")
def link_account(
    directory: options.ExistingService,
    name: options.AccountName,
    url: options.LinkUrl = "http://127.0.0.1:8000",
    database: options.DatabaseUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Print a new sign-in link, for somebody without her password; using it ends her password and all sessions."""
    with _service(directory, url, database) as (settings, session):
        from truthful.store import accounts

        found = accounts.lock_account(session, name)
        role = str(found.role)
        link = f"{settings.origin}/welcome/{accounts.new_link(session, found, OPERATOR)}"
    _tell_link(name, role, link, as_json)


@account.command("remove", epilog="Example: truthful account remove my-service 'Accounts office'")
def remove_account(
    directory: options.ExistingService,
    name: options.AccountName,
    database: options.DatabaseUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """End somebody's access at once: password, browsers, links. The name stays taken; a new link lets her in again."""
    with _service(directory, None, database) as (_, session):
        from truthful.store import accounts

        accounts.end(session, accounts.lock_account(session, name), OPERATOR)
    print_json({"name": name, "access": False}) if as_json else print(f"{name} has no access any more.")


@account.command("list", epilog="Example: truthful account list my-service")
def list_accounts(
    directory: options.ExistingService,
    database: options.DatabaseUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Print who signs in, with which role, and the studies that each has access to."""
    with _service(directory, None, database, writes=False) as (_, session):
        from truthful.store import accounts, studies

        rows: list[dict[str, Any]] = [
            {
                "name": account.name,
                "role": str(account.role),
                "password": account.password is not None,
                "access": accounts.has_access(session, account),
                "studies": {stored.id: stored.name for stored in studies.list_studies(session, account)},
            }
            for account in accounts.accounts(session)
        ]
        nobodys = {stored.id: stored.name for stored in studies.without_account(session)}
    if as_json:
        print_json({"accounts": rows, "studies_of_nobody": nobodys})
        return
    for row in rows:
        lacks = "" if row["password"] else ", without a password" if row["access"] else ", cannot sign in"
        print(f"{row['name']}, {row['role']}{lacks}")
        _print_studies(row["studies"])
    if nobodys:
        print("Studies to which no analyst has access; share them with: truthful account share")
        _print_studies(nobodys)


@account.command("share", epilog="Example: truthful account share my-service 0123456789ab ada")
def share_study(
    directory: options.ExistingService,
    study: options.SharedStudy,
    name: options.AccountName,
    end: options.EndSharing = False,
    database: options.DatabaseUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Share a study with another analyst; or with a payer, if it was frozen before studies had to name one."""
    with _service(directory, None, database) as (settings, session):
        from truthful.service.settle_study import share
        from truthful.store import studies

        studies.require_known(session, study)
        share(session, settings.locations, study, name, OPERATOR, end=end)
    told = f"{name} {'no longer has' if end else 'has'} access to study {study}."
    print_json({"study": study, "name": name, "shared": not end}) if as_json else print(told)


@app.command("log", epilog="Example: truthful log my-service > log.csv")
def print_log(
    directory: options.ExistingService,
    refused: options.RefusedSignIns = False,
    kept: options.KeptHash = None,
    database: options.DatabaseUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Print who did what, when, as CSV, or with --json as a record a line, and check that nothing was changed since."""
    with _service(directory, None, database, writes=False) as (
        _,
        session,
    ):  # whoever pages through it may pause
        from truthful.store import audit_log

        if refused:
            _print_rows(("time", "whom"), reversed(audit_log.refused_sign_ins(session)), as_json)
            return
        _print_rows(("id", *audit_log.EVENT_FIELDS, "hash"), audit_log.every_event(session), as_json)
        chain = audit_log.check_chain(session)
    if chain.broken is not None:
        raise Refused(chain.broken)
    if kept is not None and kept not in chain.hashes:
        raise Refused(
            f"The log is whole in itself, but does not hold the hash {kept!r}: it is another log, or was made anew."
        )
    print(
        f"{plural(len(chain.hashes), 'event')}, none changed or left out. The last hash is {chain.end}: keep it "
        "somewhere else, and a later log must hold it (--kept).",
        file=sys.stderr,
    )


#: Who does it, in the audit log.
OPERATOR = "command line"


@contextmanager
def _service(
    directory: Path, url: str | None, database: str | None, *, writes: bool = True
) -> Iterator[tuple[Settings, Session]]:
    """One transaction in the database of a service, which may be running: one that only reads makes nobody wait."""
    with _service_installed("The service needs"):
        from truthful.service.locations import Settings
    settings = Settings(directory, url or "http://127.0.0.1:8000", database)
    with (
        settings.existing_database() as opened,
        opened.writing() if writes else opened.reading() as session,
    ):
        yield settings, session


def _tell_link(name: str, role: str, link: str, as_json: bool) -> None:
    if as_json:
        print_json({"name": name, "role": role, "sign_in_link": link})
    else:
        print(f"{name} signs in as {role} with this link, once, within a week:\n  {link}")


def _print_studies(found: dict[str, str]) -> None:
    for study_id, name in found.items():
        shown = name if name.isprintable() else ascii(name)  # it could hold commands to the terminal
        print(f"  {study_id}  {shown or 'without a name'}")


def _print_rows(names: Sequence[str], rows: Iterable[Any], as_json: bool) -> None:
    """Rows as CSV under their names, or each as a JSON record on a line."""
    written = csv.writer(sys.stdout, lineterminator="\n")
    if not as_json:
        written.writerow(names)
    for row in rows:
        said = {name: getattr(row, name) for name in names}
        said["time"] = said["time"].isoformat()
        print(json.dumps(said, ensure_ascii=False)) if as_json else written.writerow(said.values())


def print_json(record: Any) -> None:
    print(json.dumps(record, indent=2, ensure_ascii=False))


@app.command(epilog="Example: truthful identity my-service ada ada@example.org")
def identity(
    directory: options.ExistingService,
    name: Annotated[str, typer.Argument(help="The account's name.")],
    known_as: options.AccountIdentity,
    database: options.DatabaseUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Let somebody sign in by the OpenID provider too, as this person; this replaces an earlier identity."""
    with _service(directory, None, database) as (_, session):
        from truthful.store import accounts

        accounts.set_identity(session, accounts.lock_account(session, name), known_as, OPERATOR)
    told = f"{known_as} signs in as {name}."
    print_json({"name": name, "identity": known_as}) if as_json else print(told)


def _provider(issuer: str | None, client_id: str | None, alone: bool) -> Provider | None:
    """The OpenID provider, if one is named."""
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
    """Refuse a command whose optional packages are missing, and say how to install them."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise InputError(
            f"{needs} {missing.name}, which is not installed: pip install 'truthful[{extra}]'"
        ) from None


def quiet(message: str) -> None:
    """Say nothing: the output is one JSON record."""
