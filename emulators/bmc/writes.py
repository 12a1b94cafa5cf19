"""What a client may change: sessions, accounts, subscriptions and the list of time servers."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING

from aiohttp import web

from emulators.bmc.accounts import Account
from emulators.bmc.hardware import MANAGER
from emulators.bmc.messages import Body, message
from emulators.bmc.protocol import CHALLENGE, HEADERS, LOGIN_PATHS, Ask, Refusal, allowed, answer, etag
from emulators.bmc.tree import ACCOUNTS, SESSIONS, SUBSCRIPTIONS, Subscription

if TYPE_CHECKING:
    from emulators.bmc.server import Bmc

_ACCOUNT_MEMBERS = {
    "Password": "password",
    "Enabled": "is_enabled",
    "RoleId": "role",
    "UserName": "username",
    "PasswordChangeRequired": "must_change_password",
}


async def write(bmc: Bmc, ask: Ask) -> web.StreamResponse:
    """Answer a request that changes something; raises Refusal."""
    data = await _data(ask.request)
    if ask.path in LOGIN_PATHS and ask.method == "POST":
        return _login(bmc, data)
    body = bmc.resource(ask.path)
    if body is None:
        raise Refusal("ResourceMissingAtURI", 404, ask.path)
    if ask.method not in allowed(ask.path):
        raise Refusal("OperationNotAllowed", 405, headers={"Allow": ", ".join(allowed(ask.path))})
    assert ask.account is not None, "BUG: a write without an account"
    parent, _, number = ask.path.rpartition("/")
    _check_privilege(ask, parent, number, data, ask.account)
    match = ask.request.headers.get("If-Match")
    if match not in (None, "*", etag(bmc, body)):
        raise Refusal("PreconditionFailed", 412)
    return _change(bmc, ask, parent, number, data)


async def _data(request: web.Request) -> Body:
    raw = await request.read()
    if not raw:
        return {}
    try:
        data = json.loads(raw)
    except ValueError as malformed:
        raise Refusal("MalformedJSON", 400) from malformed
    if not isinstance(data, dict):
        raise Refusal("MalformedJSON", 400)
    return data


def _check_privilege(ask: Ask, parent: str, number: str, data: Body, account: Account) -> None:
    """Let administrators do all, everybody change the own password and end a session, and nothing else."""
    is_own_password = parent == ACCOUNTS and number == account.id and ask.method == "PATCH" and set(data) <= {"Password"}
    if account.role != "Administrator" and not is_own_password and not (parent == SESSIONS and ask.method == "DELETE"):
        raise Refusal("InsufficientPrivilege", 403)


def _change(bmc: Bmc, ask: Ask, parent: str, number: str, data: Body) -> web.StreamResponse:
    if ask.path == ACCOUNTS:
        return _add_account(bmc, data)
    if parent == ACCOUNTS and ask.method == "PATCH":
        return _change_account(bmc, number, data)
    if ask.path == SUBSCRIPTIONS:
        return _subscribe(bmc, data)
    if ask.path == f"{MANAGER}/NetworkProtocol":
        return _change_time_servers(bmc, data)
    if parent == ACCOUNTS:
        bmc.accounts.accounts.pop(number)
    elif parent == SESSIONS:
        bmc.accounts.sessions.pop(number)
    else:
        bmc.streams.close(number)
    return web.Response(status=204, headers=HEADERS)


def _login(bmc: Bmc, data: Body) -> web.StreamResponse:
    username, password = data.get("UserName"), data.get("Password")
    if not isinstance(username, str) or not isinstance(password, str):
        raise Refusal("PropertyMissing", 400, "Password" if isinstance(username, str) else "UserName")
    account = bmc.accounts.check(username, password)
    if account is None:
        raise Refusal("ResourceAtUriUnauthorized", 401, SESSIONS, "Authentication failed.", headers=CHALLENGE)
    session = bmc.login(account)
    if session is None:
        raise Refusal("SessionLimitExceeded", 503, headers={"Retry-After": "30"})
    body = bmc.tree.session(session.id)
    if account.must_change_password:
        body["@Message.ExtendedInfo"] = [message("PasswordChangeRequired", f"{ACCOUNTS}/{account.id}")]
    return answer(body, 201, {"Location": f"{SESSIONS}/{session.id}", "X-Auth-Token": session.token})


def _add_account(bmc: Bmc, data: Body) -> web.StreamResponse:
    username, password, role = data.get("UserName"), data.get("Password"), data.get("RoleId", "ReadOnly")
    if not isinstance(username, str) or not isinstance(password, str):
        raise Refusal("PropertyMissing", 400, "Password" if isinstance(username, str) else "UserName")
    account = bmc.accounts.add(username, password, str(role))
    return _created(bmc, f"{ACCOUNTS}/{account.id}")


def _created(bmc: Bmc, path: str) -> web.StreamResponse:
    body = bmc.resource(path)
    assert body is not None, "BUG: what was created is not there"
    return answer(body, 201, {"Location": path, "ETag": etag(bmc, body)})


def _change_account(bmc: Bmc, number: str, data: Body) -> web.StreamResponse:
    given = [name for name in data if "@" not in name]
    if not given:
        raise Refusal("NoOperation", 400)
    known = [name for name in given if name in _ACCOUNT_MEMBERS or name == "Locked"]
    if not known:
        raise Refusal("PropertyUnknown", 400, given[0])
    account = bmc.accounts.accounts[number]
    for name in known:
        if name in _ACCOUNT_MEMBERS:
            setattr(account, _ACCOUNT_MEMBERS[name], data[name])
    if "Password" in known:
        account.must_change_password = False
    body = bmc.resource(f"{ACCOUNTS}/{number}") or {}
    tag = etag(bmc, body)
    unknown = {name: message("PropertyUnknown", name, severity="Warning") for name in given if name not in known}
    if unknown:
        body["@Message.ExtendedInfo"] = list(unknown.values())
        body |= {f"{name}@Message.ExtendedInfo": [told] for name, told in unknown.items()}
    return answer(body, 200, {"ETag": tag})


def _subscribe(bmc: Bmc, data: Body) -> web.StreamResponse:
    if data.get("Protocol") != "Redfish":
        raise Refusal("PropertyValueNotInList", 400, str(data.get("Protocol")), "Protocol")
    if len(bmc.tree.subscriptions) >= 2 * bmc.profile.admission.most_streams:
        raise Refusal("EventSubscriptionLimitExceeded", 503)
    number = secrets.token_hex(4)
    bmc.tree.subscriptions[number] = Subscription(
        number, str(data.get("Context", "")), str(data.get("Destination", "")), str(data.get("EventFormatType", "Event"))
    )
    return _created(bmc, f"{SUBSCRIPTIONS}/{number}")


def _change_time_servers(bmc: Bmc, data: Body) -> web.StreamResponse:
    """Change elements of an array: null removes one, `{}` keeps it (DSP0266 7.8.5)."""
    ntp = data.get("NTP")
    wanted = ntp.get("NTPServers") if isinstance(ntp, dict) else None
    if not isinstance(wanted, list):
        raise Refusal("PropertyUnknown", 400, next(iter(data), "NTP"))
    held = bmc.tree.hardware.ntp_servers
    kept = [held[place] if server == {} and place < len(held) else server for place, server in enumerate(wanted)]
    bmc.tree.hardware.ntp_servers = [server for server in kept if isinstance(server, str)]
    body = bmc.resource(f"{MANAGER}/NetworkProtocol") or {}
    return answer(body, 200, {"ETag": etag(bmc, body)})
