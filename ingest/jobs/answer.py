"""What Slurm answers: its list of jobs, or an error; the same by whichever way it was asked."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from ingest.errors import SourceUnavailable

MAX_ANSWER_BYTES = 128 * 2**20  # 6 kB are a job of 24.11
_NOTHING_FOUND = 9003  # ESLURM_REST_EMPTY_RESULT: accounting's way to say that it has no such job
_REFUSED = 1007  # ESLURM_PROTOCOL_AUTHENTICATION_ERROR


def entries_of(text: bytes | bytearray, who: str) -> list[Any]:
    """Give the jobs of an answer as Slurm prints them; raises SourceUnavailable where it is an error or has no list of jobs."""
    answer = decode(text, who)
    complaint = complaint_of(answer)
    if complaint.number == _NOTHING_FOUND:
        return []
    if complaint.number == _REFUSED:
        mend = "whom slurmctld or slurmdbd refuses; for tokens both need AuthAltTypes=auth/jwt"
        raise SourceUnavailable("unauthorized", f"{who}: {complaint.text}: {mend}")
    if complaint.number:
        raise SourceUnavailable(f"error({complaint.number})", f"{who}: {complaint.text}")
    jobs = answer.get("jobs") if isinstance(answer, dict) else None
    if not isinstance(jobs, list):  # no jobs are an empty list: a list that is missing must not end every job
        raise SourceUnavailable("malformed", f"{who}: the answer has no list of jobs")
    return jobs


def decode(text: bytes | bytearray, who: str) -> Any:
    """Read JSON; raises SourceUnavailable where it is none. What is no UTF-8 is a character in somebody's comment, and is replaced."""
    try:
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            mended = text.decode(errors="replace").encode()
            if mended == text:
                raise
        return msgspec.json.decode(mended)
    except (msgspec.DecodeError, RecursionError) as error:  # RecursionError: nested too deep
        raise SourceUnavailable("malformed", f"{who}: {error}") from error


def too_large(who: str, max_bytes: int) -> SourceUnavailable:
    """Say that an answer is longer than is read."""
    return SourceUnavailable("too_large", f"{who}: more than {max_bytes / 2**20:g} MiB: lower Slurm's MinJobAge")


class Complaint(NamedTuple):
    """The first error of an answer: Slurm's number, 0 for none, and its words."""

    number: int
    text: str


def complaint_of(answer: Any) -> Complaint:
    """Find the first error of an answer; 24.11 also lists errors of the number 0, which are none."""
    errors = answer.get("errors") if isinstance(answer, dict) else None
    for error in errors if isinstance(errors, list) else ():
        number = error.get("error_number", error.get("errno")) if isinstance(error, dict) else None
        if isinstance(number, int) and number:
            words = [error[key] for key in ("description", "error") if error.get(key) and isinstance(error[key], str)]
            return Complaint(number, ": ".join(words)[:200])
    return Complaint(0, "")
