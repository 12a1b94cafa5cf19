"""A writer says how far it is behind, and raises an alarm when it holds no partition while what waits grows."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from kafka import TopicPartition
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from ingest.kafka_admin import TopicState
from ingest.kafka_lag import Lag

EVENTS, SAMPLES = TopicPartition("f.events", 0), TopicPartition("f.gpu_samples", 0)


@pytest.fixture
def lag() -> Lag:
    """Give the watch of a member that reads two topics."""
    return Lag({"f.events": "events", "f.gpu_samples": "gpu_samples"}, "writers")


def value(name: str, **labels: str) -> float | None:
    """Read a metric."""
    return REGISTRY.get_sample_value(name, labels)


def state(waiting: int, owned: int = 3) -> TopicState:
    """Describe a topic of three partitions in which messages wait."""
    return TopicState(topic="f.events", partitions=3, messages=100, lag=waiting, owned=owned)


def test_lag_and_age_are_those_of_the_partitions_that_are_behind(lag: Lag) -> None:
    """Lag adds up per table; the age is that of the last message read where more waits behind it, and 0 where nothing waits."""
    lag.note({EVENTS: [SimpleNamespace(timestamp=40_000)], SAMPLES: [SimpleNamespace(timestamp=10_000), SimpleNamespace(timestamp=99_000)]})
    lag.measure({EVENTS: 5, SAMPLES: 7}, {EVENTS: 25, SAMPLES: 7}.get, held=2, now_ms=100_000)
    assert value("forewarn_bus_lag_messages", table="events") == 20
    assert value("forewarn_bus_lag_messages", table="gpu_samples") == 0
    assert value("forewarn_bus_oldest_unread_age_seconds") == 60
    assert value("forewarn_bus_partitions") == 2
    lag.measure({EVENTS: 25, SAMPLES: 7}, {EVENTS: 25, SAMPLES: 7}.get, held=2, now_ms=100_000)
    assert value("forewarn_bus_oldest_unread_age_seconds") == 0


def test_a_spare_member_is_quiet_until_what_waits_grows(lag: Lag) -> None:
    """Others hold all partitions: no alarm while they keep up, one error line and a growing metric when they do not."""
    with capture_logs() as said:
        assert lag.idle([state(10)]) == []
        assert lag.idle([state(4)]) == []
    assert said == []
    with capture_logs() as said:
        assert lag.idle([state(500)]) == []
    assert [(line["event"], line["lag"], line["log_level"]) for line in said] == [("writer_idle_while_lag_grows", 500, "error")]
    assert value("forewarn_bus_idle_lag_messages") == 500


def test_partitions_without_a_reader_are_an_alarm_at_once(lag: Lag) -> None:
    """The topics are named, so that the member joins anew."""
    with capture_logs() as said:
        assert lag.idle([state(10, owned=0)]) == ["f.events"]
    assert [(line["event"], line["topics"]) for line in said] == [("writer_without_partitions", ["f.events"])]


def test_a_member_that_holds_partitions_again_ends_the_alarm(lag: Lag) -> None:
    """The metric falls to 0, and a later idle spell starts a comparison of its own."""
    lag.idle([state(10)])
    lag.measure({}, {}.get, held=1, now_ms=0)
    assert value("forewarn_bus_idle_lag_messages") == 0
    with capture_logs() as said:
        lag.idle([state(90)])
    assert said == []
