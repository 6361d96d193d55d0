"""A background thread that hands mails to the operator's mail server, one after the other.

Each mail's state is stored before and after. While the server cannot be reached, mails wait and are retried.
"""

from __future__ import annotations

import smtplib
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, localtime, make_msgid

from truthful.files import exclusive
from truthful.service.locations import LOOPBACK, Settings, Smtp
from truthful.service.monitoring import complain
from truthful.store import mails, roster
from truthful.store.accounts import hash_token
from truthful.store.database import Database
from truthful.store.mails import ENCODED, REPLACED, Letter
from truthful.store.tables import Sending

#: In seconds: the pause between looks for mails, and the mail server's time for each reply.
LOOK_SECONDS, ANSWER_SECONDS = 10.0, 30.0
#: The lock file whose holder sends mails.
LOCK = ".mailing.lock"
#: The port with TLS from the first byte.
TLS_PORT = 465
LANGUAGES_APART = "\n\n—\n\n"
ENDED = (
    "The mail server ended the connection before it said whether it took the mail, so it may have arrived."
)
#: The placeholder for the link in a text.
LINK = "{link}"


class Mailer:
    """Sends the waiting mails. `problem` is the reason why it cannot at the moment, or None."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database, self._settings = database, settings
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="mailer", daemon=True)
        self.problem: str | None = None

    def start(self) -> None:
        self._thread.start()

    def ask(self) -> None:
        """Wake the thread to send waiting mails now."""
        self._wake.set()

    def stop(self) -> None:
        """Stop after the mail being sent."""
        self._stopping.set()
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                self.send_waiting()
            except Exception as failed:  # such as a lost database: the thread must survive
                complain("Sending mails failed.", failed)
            self._wake.wait(LOOK_SECONDS)

    def send_waiting(self) -> None:
        """Send all waiting mails while the mail server replies; only one process does so at a time."""
        smtp = self._settings.smtp
        with self._database.reading() as session:
            if smtp is None or not mails.is_under_way(session):
                return
        with exclusive(self._settings.locations.root / LOCK) as alone:
            if alone:
                self._send_all(smtp)

    def _send_all(self, smtp: Smtp) -> None:
        """Send all waiting mails. Those still marked as being sent were interrupted: only the lock's holder sends."""
        with self._database.writing() as session:
            mails.note_interrupted(session)
        try:
            with _connect(smtp) as server:
                self.problem = None
                while not self._stopping.is_set() and self._send_next(server, smtp):
                    pass
        except (OSError, smtplib.SMTPException) as failed:
            why = _error_text(failed)
            self.problem = f"The mail server {smtp.host}:{smtp.port} cannot be used now: {why}. Mails wait."

    def _send_next(self, server: smtplib.SMTP, smtp: Smtp) -> bool:
        """Send the next mail; False if none waits."""
        if server.noop()[0] != 250:
            raise smtplib.SMTPServerDisconnected("it does not answer any more")
        with self._database.writing() as session:
            letter = mails.take(session)
        if letter is None:
            return False
        state, problem = self._hand_over(server, smtp, letter)
        with self._database.writing() as session:
            mails.note(session, letter, state, problem)
        if state == Sending.UNKNOWN:
            raise smtplib.SMTPServerDisconnected(ENDED)
        return True

    def _hand_over(self, server: smtplib.SMTP, smtp: Smtp, letter: Letter) -> tuple[Sending, str | None]:
        key = self._settings.locations.links_key(letter.study_id)
        token = roster.derive_token(key, letter.player, letter.salt or "")
        if hash_token(token) != letter.link:
            return Sending.FAILED, REPLACED
        try:
            server.send_message(write_message(letter, f"{self._settings.origin}/a/{token}", smtp.sender))
        except (smtplib.SMTPRecipientsRefused, smtplib.SMTPResponseException) as refused:
            return Sending.FAILED, f"The mail server did not take it: {_error_text(refused)}"
        except (OSError, smtplib.SMTPException):
            return Sending.UNKNOWN, ENDED
        return Sending.SENT, None


def write_message(letter: Letter, link: str, sender: str) -> EmailMessage:
    """The message to one person: the analyst's text in each language she wrote it in, with the link."""
    kind = "reminder" if letter.reminder else "invitation"
    words = {
        name.removeprefix(f"{kind}_"): text for name, text in letter.texts.items() if name.startswith(kind)
    }
    message = EmailMessage(SMTP)
    message["From"], message["To"] = sender, letter.address
    # Encoded words would be decoded here, and could hide line ends and further headers.
    message["Subject"] = " ".join(words.pop("subject", "").split()).replace(ENCODED, "= ?")
    message["Date"] = format_datetime(localtime())
    message["Message-ID"] = make_msgid(domain=sender.rpartition("@")[2])
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(LANGUAGES_APART.join(filter(None, words.values())).replace(LINK, link) + "\n")
    return message


@contextmanager
def _connect(smtp: Smtp) -> Iterator[smtplib.SMTP]:
    """A connection to the mail server, logged in. Other machines are only spoken to over TLS."""
    tls = ssl.create_default_context()
    if smtp.port == TLS_PORT:
        server: smtplib.SMTP = smtplib.SMTP_SSL(smtp.host, smtp.port, timeout=ANSWER_SECONDS, context=tls)
    else:
        server = smtplib.SMTP(smtp.host, smtp.port, timeout=ANSWER_SECONDS)
    with server:
        if smtp.port != TLS_PORT and smtp.host not in LOOPBACK:
            server.starttls(context=tls)
        if smtp.user is not None:
            server.login(smtp.user, smtp.password or "")
        yield server


def _error_text(problem: Exception) -> str:
    """A mail server's reply or an error, as one line."""
    if isinstance(problem, smtplib.SMTPRecipientsRefused):
        return _reply_text(*next(iter(problem.recipients.values())))
    if isinstance(problem, smtplib.SMTPResponseException):
        return _reply_text(problem.smtp_code, problem.smtp_error)
    return str(problem) or type(problem).__name__


def _reply_text(code: int, reply: bytes | str) -> str:
    return f"{code} {reply.decode(errors='replace') if isinstance(reply, bytes) else reply}"
