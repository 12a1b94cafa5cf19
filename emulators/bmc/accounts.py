"""Accounts, roles and sessions of a BMC."""

from __future__ import annotations

import base64
import binascii
import itertools
import secrets
from dataclasses import dataclass, field

ROLES = {
    "Administrator": ("Login", "ConfigureManager", "ConfigureUsers", "ConfigureSelf", "ConfigureComponents"),
    "Operator": ("Login", "ConfigureSelf", "ConfigureComponents"),
    "ReadOnly": ("Login", "ConfigureSelf"),
}


@dataclass
class Account:
    """One user of the BMC."""

    id: str
    username: str
    password: str = field(repr=False)
    role: str = "Administrator"
    is_enabled: bool = True
    must_change_password: bool = False

    def may(self, privilege: str) -> bool:
        """Tell whether the account's role has a privilege."""
        return privilege in ROLES[self.role]


@dataclass
class Session:
    """One login."""

    id: str
    token: str = field(repr=False)
    username: str
    used_s: float


class Accounts:
    """Who may ask; times are seconds of the wall's monotonic clock."""

    def __init__(self, username: str, password: str, *, timeout_s: float, most_sessions: int) -> None:
        self.accounts = {"1": Account("1", username, password)}
        self.sessions: dict[str, Session] = {}
        self.timeout_s = timeout_s
        self.most_sessions = most_sessions
        self._numbers = itertools.count(1)

    def add(self, username: str, password: str, role: str) -> Account:
        """Add an account."""
        number = str(max(map(int, self.accounts)) + 1)
        self.accounts[number] = Account(number, username, password, role)
        return self.accounts[number]

    def by_name(self, username: str) -> Account | None:
        """Find an account by its user name."""
        return next((account for account in self.accounts.values() if account.username == username), None)

    def check(self, username: object, password: object) -> Account | None:
        """Find the enabled account that these credentials open."""
        if not isinstance(username, str) or not isinstance(password, str):
            return None
        account = self.by_name(username)
        is_right = account is not None and secrets.compare_digest(account.password.encode(), password.encode())
        return account if account is not None and account.is_enabled and is_right else None

    def login(self, account: Account, now_s: float) -> Session | None:
        """Open a session; None when there is none left to give."""
        self._expire(now_s)
        if len(self.sessions) >= self.most_sessions:
            return None
        session = Session(str(next(self._numbers)), secrets.token_hex(24), account.username, now_s)
        self.sessions[session.id] = session
        return session

    def who(self, token: str | None, authorization: str | None, now_s: float) -> Account | None:
        """Find the account behind a request; a token that is present wins."""
        self._expire(now_s)
        if token is not None:
            for session in self.sessions.values():
                if secrets.compare_digest(session.token.encode(), token.encode()):
                    session.used_s = now_s
                    return self.by_name(session.username)
            return None
        return self.check(*_basic(authorization)) if authorization else None

    def _expire(self, now_s: float) -> None:
        self.sessions = {number: session for number, session in self.sessions.items() if now_s - session.used_s <= self.timeout_s}


def _basic(authorization: str) -> tuple[str | None, str | None]:
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None, None
    try:
        username, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None, None
    return username, password
