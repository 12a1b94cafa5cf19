"""The rules that hold for every request to a Redfish service (DSP0266): who may ask, which methods, headers, errors and ETags."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

from emulators.bmc.accounts import Account
from emulators.bmc.faults import Rule
from emulators.bmc.hardware import MANAGER
from emulators.bmc.messages import Body, error
from emulators.bmc.metadata import metadata, service_document
from emulators.bmc.resource import ROOT
from emulators.bmc.tree import ACCOUNTS, SESSIONS, SUBSCRIPTIONS

if TYPE_CHECKING:
    from emulators.bmc.server import Bmc

HEADERS = {
    "OData-Version": "4.0",
    "Cache-Control": "no-store",
    "Access-Control-Allow-Origin": "*",
    "X-Content-Type-Options": "nosniff",
}
LOGIN_PATHS = (SESSIONS, f"{SESSIONS}/Members")
_PUBLIC = ("/redfish", ROOT, f"{ROOT}/odata", f"{ROOT}/$metadata")
_METHODS = ("GET", "HEAD", "POST", "PATCH", "DELETE", "PUT", "OPTIONS")
CHALLENGE = {"WWW-Authenticate": 'Basic realm="Redfish"'}


@dataclass(frozen=True)
class Ask:
    """A request that passed the first rules; `account` is None for what everybody may see."""

    request: web.Request
    path: str
    account: Account | None

    @property
    def method(self) -> str:
        """Name the method."""
        return self.request.method

    @property
    def is_read(self) -> bool:
        """Tell whether nothing is to be changed."""
        return self.method in ("GET", "HEAD")


class Refusal(Exception):
    """An answer that ends the handling of a request."""

    def __init__(self, name: str, status: int, *args: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(name)
        self.response = answer(error(name, *args), status, headers)


def answer(body: Body, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Write a JSON answer with the headers that all have."""
    raw = json.dumps(body).encode()
    return web.Response(body=raw, status=status, headers={**HEADERS, **(headers or {})}, content_type="application/json", charset="utf-8")


def admit(bmc: Bmc, request: web.Request) -> Ask:
    """Check method, credentials and headers; raises Refusal."""
    path = request.path.rstrip("/") or "/"
    if request.method not in _METHODS:
        raise Refusal("GeneralError", 501)
    is_read = request.method in ("GET", "HEAD")
    is_public = path in _PUBLIC and is_read
    is_login = path in LOGIN_PATHS and request.method == "POST"
    account = bmc.who(request.headers.get("X-Auth-Token"), request.headers.get("Authorization"))
    if account is None and not is_public and not is_login:
        raise Refusal("NoValidSession", 401, headers=CHALLENGE)
    if account is not None and account.must_change_password and not is_public and not is_login:
        _allow_password_change(path, request.method, account)
    if request.headers.get("OData-Version", "4.0") != "4.0":
        raise Refusal("HeaderInvalid", 412, "OData-Version")
    is_stream = path == bmc.profile.admission.path
    known = {"$filter"} if is_stream else {"$expand"} if bmc.profile.expand != "none" else set[str]()
    unsupported = [name for name in request.query if name.startswith("$") and name not in known]
    if is_read and unsupported:
        raise Refusal("QueryParameterUnsupported", 501, unsupported[0])
    return Ask(request, path, account)


def _allow_password_change(path: str, method: str, account: Account) -> None:
    """Let an account whose password must change do that and end its session, and nothing else."""
    is_own = path == f"{ACCOUNTS}/{account.id}" and method in ("GET", "PATCH")
    is_logout = path.startswith(f"{SESSIONS}/") and method == "DELETE"
    if not is_own and not is_logout:
        raise Refusal("PasswordChangeRequired", 403, f"{ACCOUNTS}/{account.id}")


def answer_by(rule: Rule) -> web.Response:
    """Answer as a rule says."""
    if isinstance(rule.body, bytes):
        return web.Response(body=rule.body, status=rule.status or 200, headers=rule.headers, content_type=rule.content_type)
    return answer(rule.body or error("GeneralError"), rule.status or 200, rule.headers)


def read(bmc: Bmc, ask: Ask, rule: Rule | None = None) -> web.StreamResponse:
    """Answer a GET or HEAD of a resource, changed as a rule says."""
    if ask.path == "/redfish":
        return answer({"v1": f"{ROOT}/"}, headers={"Allow": "GET, HEAD"})
    if ask.path == f"{ROOT}/odata":
        return answer(service_document(), headers={"Allow": "GET, HEAD"})
    if ask.path == f"{ROOT}/$metadata":
        headers = {**HEADERS, "Allow": "GET, HEAD"}
        return web.Response(text=metadata(), content_type="application/xml", charset="utf-8", headers=headers)
    body = bmc.resource(ask.path)
    if body is None:
        raise Refusal("ResourceMissingAtURI", 404, ask.path)
    if rule is not None:
        body = {name: value for name, value in (body | dict(rule.merge)).items() if name not in rule.drop}
    if "$expand" in ask.request.query:
        body = body | {"Members": [_expanded(bmc, member) for member in _members(body)]}
    tag = etag(bmc, body)
    if ask.request.headers.get("If-None-Match") == tag:
        return web.Response(status=304, headers={**HEADERS, "ETag": tag})
    headers = {"ETag": tag, "Allow": ", ".join(allowed(ask.path)), "Link": f"<{_schema(body)}>; rel=describedby"}
    return answer({**body, "@odata.etag": tag}, headers=headers)


def _members(body: Body) -> list[str]:
    members = body.get("Members")
    return [member["@odata.id"] for member in members] if isinstance(members, list) else []


def _expanded(bmc: Bmc, path: str) -> Body:
    """Give a member in full, or as a BMC does that loses what is required."""
    body = bmc.resource(path) or {}
    return body if bmc.profile.expand == "full" else {"@odata.id": path, "Name": body.get("Name")}


def allowed(path: str) -> list[str]:
    """List the methods that a resource allows."""
    parent = path.rpartition("/")[0]
    methods = ["GET", "HEAD"]
    if path in (ACCOUNTS, SESSIONS, SUBSCRIPTIONS):
        methods.append("POST")
    if parent == ACCOUNTS:
        methods += ["PATCH", "DELETE"]
    if parent in (SESSIONS, SUBSCRIPTIONS):
        methods.append("DELETE")
    if path == f"{MANAGER}/NetworkProtocol":
        methods.append("PATCH")
    return methods


def etag(bmc: Bmc, body: Body) -> str:
    """Compute a weak ETag; a password is not shown and yet changes that of its account."""
    shown = {name: value for name, value in body.items() if name not in ("DateTime", "@odata.etag")}
    path = str(body.get("@odata.id", ""))
    account = bmc.accounts.accounts.get(path.removeprefix(f"{ACCOUNTS}/"))
    secret = account.password if account else ""
    digest = hashlib.sha256((json.dumps(shown, sort_keys=True) + secret).encode()).hexdigest()
    return f'W/"{digest[:16]}"'


def _schema(body: Body) -> str:
    name = str(body["@odata.type"]).removeprefix("#").rpartition(".")[0]
    return f"http://redfish.dmtf.org/schemas/v1/{name}.json"
