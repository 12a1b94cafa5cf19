"""Tell what an answer of a BMC means: the same status says different things, and different statuses the same.

ok            use the body
unauthorized  the token is gone: log in once, repeat the request once
limit         sessions, subscriptions or load: wait as told; never a matter of credentials
not_licensed  permanent for this resource: ask again once a day
forbidden     the account lacks a right: on a stream, poll instead
missing       not enabled, or a BMC that is booting
not_offered   the BMC does not have this: poll instead
bad_filter    a dialect of `$filter` that this BMC does not speak
not_ready     a BMC that is starting or overloaded
wrong_type    a proxy or a login page answered: never parse it
transient     anything else: back off
unreachable   no answer at all
bad_ca        nothing was asked: the certificates to trust cannot be read
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from ingest.errors import RecordRejected, SourceUnavailable
from ingest.redfish.payloads import read_json


class Outcome(StrEnum):
    """What an answer means; the module's text says what to do about it."""

    OK = "ok"
    UNAUTHORIZED = "unauthorized"
    LIMIT = "limit"
    NOT_LICENSED = "not_licensed"
    FORBIDDEN = "forbidden"
    MISSING = "missing"
    NOT_OFFERED = "not_offered"
    BAD_FILTER = "bad_filter"
    NOT_READY = "not_ready"
    WRONG_TYPE = "wrong_type"
    TRANSIENT = "transient"
    UNREACHABLE = "unreachable"
    BAD_CA = "bad_ca"


class Asked(StrEnum):
    """What was asked for: it decides the media type and what a 400 may mean."""

    RESOURCE = "resource"
    STREAM = "stream"
    FILTERED_STREAM = "filtered stream"


class Refused(SourceUnavailable):
    """An answer other than ok; `retry_after_s` is the BMC's own wish, clamped."""

    def __init__(self, outcome: Outcome, status: int | None, detail: str = "", retry_after_s: float | None = None) -> None:
        state = f"error({status})" if outcome is Outcome.TRANSIENT and status is not None else str(outcome)
        super().__init__(state, detail)
        self.outcome = outcome
        self.status = status
        self.retry_after_s = retry_after_s


MOST_RETRY_AFTER_S = 600.0
_MOST_DETAIL = 200  # characters of a message's name
_MEDIA_TYPE = {Asked.RESOURCE: "json", Asked.STREAM: "text/event-stream", Asked.FILTERED_STREAM: "text/event-stream"}
_LIMIT = re.compile(r"SubscriptionLimitExceeded|SessionLimitExceeded|RAC0218")
_LICENCE = re.compile(r"SWC0242|LicenseRequired|licen[cs]e", re.IGNORECASE)
_NOT_READY = re.compile(r"SWC0700|not ready", re.IGNORECASE)


def judge(asked: Asked, status: int, media_type: str, body: bytes = b"") -> Outcome:
    """Judge an answer; `body` is needed for errors only."""
    if 200 <= status < 300:
        return Outcome.OK if status == 204 or _MEDIA_TYPE[asked] in media_type.lower() else Outcome.WRONG_TYPE
    text = body.decode(errors="replace")
    if status == 400:
        return _judge_400(asked, text)
    if status == 403:
        return _judge_403(text)
    if status == 501 and asked is Asked.FILTERED_STREAM:
        return Outcome.BAD_FILTER
    return _BY_STATUS.get(status, Outcome.TRANSIENT)


_BY_STATUS: Mapping[int, Outcome] = {
    401: Outcome.UNAUTHORIZED,
    404: Outcome.MISSING,
    405: Outcome.NOT_OFFERED,
    406: Outcome.NOT_OFFERED,
    410: Outcome.MISSING,
    429: Outcome.LIMIT,
    501: Outcome.NOT_OFFERED,
    503: Outcome.LIMIT,
}


def _judge_400(asked: Asked, text: str) -> Outcome:
    if _NOT_READY.search(text):
        return Outcome.NOT_READY
    return Outcome.BAD_FILTER if asked is Asked.FILTERED_STREAM else Outcome.TRANSIENT


def _judge_403(text: str) -> Outcome:
    if _LIMIT.search(text):
        return Outcome.LIMIT
    return Outcome.NOT_LICENSED if _LICENCE.search(text) else Outcome.FORBIDDEN


def refusal(outcome: Outcome, status: int, body: bytes, headers: Mapping[str, str]) -> Refused:
    """Describe an answer other than ok by its first message and its `Retry-After`."""
    return Refused(outcome, status, _message(body), _retry_after(headers.get("Retry-After")))


def _message(body: bytes) -> str:
    """Take the text of a Redfish error; pages of proxies are not quoted."""
    try:
        error = read_json(body).get("error")
    except RecordRejected:
        return ""
    if not isinstance(error, dict):
        return ""
    messages = error.get("@Message.ExtendedInfo")
    first = messages[0] if isinstance(messages, list) and messages else error
    named = first.get("MessageId") or first.get("code") if isinstance(first, dict) else None
    found = named or error.get("code")
    return found[:_MOST_DETAIL] if isinstance(found, str) else ""


def _retry_after(text: str | None) -> float | None:
    """Read a number of seconds; digits are ASCII, since `isdigit` takes more for digits than `float` does."""
    digits = text.strip() if text is not None else ""
    if not (digits.isascii() and digits.isdigit()):
        return None
    return min(max(float(digits), 1.0), MOST_RETRY_AFTER_S)
