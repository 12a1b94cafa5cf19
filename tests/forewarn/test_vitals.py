"""What a process says of itself over HTTP comes within its deadline, whatever the process is doing."""

from __future__ import annotations

import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from forewarn.health import turns
from forewarn.vitals import MOST_CLIENTS, Finding, Vitals
from ingest.errors import ConfigError


@pytest.fixture
def sick() -> Iterator[Vitals]:
    """Serve a process whose loop has stopped and whose source has nothing."""
    alive = {"collector": lambda: turns(time.monotonic() - 60.0, 15.0)}
    ready = {"sources": lambda: Finding(False, "nvml hung"), "spool": lambda: Finding(True, "0.1 of 16 MiB")}
    with Vitals("127.0.0.1", 0, section="collect", alive=alive, ready=ready) as vitals:
        yield vitals


def get(vitals: Vitals, path: str, timeout_s: float = 2.0) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{vitals.port}{path}", timeout=timeout_s) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_loop_that_does_not_turn_is_not_alive(sick: Vitals) -> None:
    """/healthz answers 503 and says for how long the loop has stood."""
    assert get(sick, "/healthz") == (503, '{"status":"not alive","checks":{"collector":"has not turned for 60 s"}}\n')


def test_one_check_that_does_not_hold_is_not_ready(sick: Vitals) -> None:
    """/readyz answers 503 with what every check says."""
    assert get(sick, "/readyz") == (503, '{"status":"not ready","checks":{"sources":"nvml hung","spool":"0.1 of 16 MiB"}}\n')


def test_all_checks_that_hold_are_200() -> None:
    """A loop that turned just now is alive."""
    alive = {"collector": lambda: turns(time.monotonic(), 15.0)}
    with Vitals("127.0.0.1", 0, section="collect", alive=alive, ready={}) as vitals:
        assert get(vitals, "/healthz") == (200, '{"status":"alive","checks":{"collector":"ok"}}\n')


def test_metrics_are_those_that_are_declared(sick: Vitals) -> None:
    """/metrics is the Prometheus text of the process; any other page is 404."""
    status, body = get(sick, "/metrics")
    assert (status, "# TYPE forewarn_spool_bytes gauge" in body) == (200, True)
    assert get(sick, "/")[0] == 404


def test_clients_that_say_nothing_are_few_and_dropped(sick: Vitals) -> None:
    """Beyond the bound a connection is closed at once; those that hold it are dropped, and then all is as before."""
    with ExitStack() as stack:
        for _ in range(MOST_CLIENTS):
            stack.enter_context(socket.create_connection(("127.0.0.1", sick.port)))
        with pytest.raises((ConnectionError, urllib.error.URLError)):
            get(sick, "/healthz")
        deadline = time.monotonic() + 20
        status = 0
        while status != 503:
            assert time.monotonic() < deadline
            try:
                status = get(sick, "/healthz")[0]
            except (ConnectionError, urllib.error.URLError):
                time.sleep(0.1)


def test_a_port_in_use_is_named(sick: Vitals) -> None:
    """A second process is told which setting to change."""
    with pytest.raises(ConfigError, match=rf"write\.metrics_port = {sick.port}: cannot listen on 127\.0\.0\.1 \(.*\): give another port"):
        Vitals("127.0.0.1", sick.port, section="write", alive={}, ready={})
