"""Without a broker, or without a way to it, the spools hold what is said, and it is all in the lake afterwards."""

from __future__ import annotations

from pathlib import Path

import duckdb

from ingest.clock import NS, datetime_of
from ingest.kafka_admin import topic_states
from ingest.schema import GPU_SAMPLES
from tests.faults.broker import Broker, free_port, wait_until
from tests.faults.conftest import MakePlant
from tests.faults.plant import Plant
from tests.faults.proxy import Proxy
from tests.faults.verdict import judge

EPOCH_NS = 1_780_000_000 * NS
HOUR_NS = 3600 * NS


def test_an_hour_without_a_broker(make_plant: MakePlant) -> None:
    """Everything starts before the broker does and outlives its absence; an hour of fleet time is in the lake once, at its own times."""
    plant = make_plant(epoch_ns=EPOCH_NS, scale=720.0, interval_s=180.0)
    plant.start_collectors()
    plant.start_writer("writer0")
    plant.start_writer("writer1")
    plant.wait_for_pages(3)
    plant.broker.start()
    plant.broker.wait()
    plant.wait_for_rows()

    plant.broker.kill()
    gone_ns = plant.fleet.now_ns()
    wait_until(lambda: plant.fleet.now_ns() > gone_ns + HOUR_NS, "an hour of fleet time has passed", 300)
    back_ns = plant.fleet.now_ns()
    plant.broker.start()
    plant.settle()

    verdict = judge(plant.lake, plant.fleet)
    assert verdict.is_exact, str(verdict)
    assert (plant.dropped, dict(plant.ended)) == (0, {})
    assert samples_between(plant, gone_ns, back_ns) > 20


def test_a_partition_between_collector_and_broker(make_plant: MakePlant, tmp_path: Path) -> None:
    """Answers that do not come back, a collector that is killed meanwhile, then silence both ways: what was sent twice is stored once."""
    listener = free_port()
    target = f"127.0.0.1:{listener}"
    with Proxy(target) as proxy:
        plant = make_plant(epoch_ns=EPOCH_NS, scale=720.0, interval_s=180.0, broker=with_second_listener(tmp_path, listener, proxy.address))
        plant.bootstrap_of["collector0"] = proxy.address
        plant.start_all()
        plant.wait_for_rows()

        proxy.passes_answers = False
        wait_until(lambda: proxy.swallowed["answers"] > 0, "an answer is lost", 300)
        plant.kill("collector0")
        proxy.heal()
        plant.restart("collector0")
        plant.wait_for_pages(5)
        proxy.passes_requests = proxy.passes_answers = False
        plant.wait_for_pages(20)
        proxy.heal()
        plant.settle()

        assert messages(plant) > stored_messages(plant), "nothing was sent twice"
    verdict = judge(plant.lake, plant.fleet)
    assert verdict.is_exact, str(verdict)
    assert (plant.dropped, dict(plant.ended)) == (0, {})


def with_second_listener(directory: Path, port: int, advertised: str) -> Broker:
    """Make a broker that tells those who come through a second port to come back through the proxy."""
    broker = Broker(directory / "kafka")
    own, controller = broker.address, broker.controller
    broker.environment["KAFKA_EXTRA"] = "\n".join(
        (
            f"listeners=PLAINTEXT://{own},FAR://127.0.0.1:{port},CONTROLLER://{controller}",
            f"advertised.listeners=PLAINTEXT://{own},FAR://{advertised}",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,FAR:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name=PLAINTEXT",
        )
    )
    return broker


def samples_between(plant: Plant, start_ns: int, end_ns: int) -> int:
    """Count the samples that were observed in a span."""
    with duckdb.connect() as connection:
        plant.lake.attach(connection, GPU_SAMPLES)
        span = [datetime_of(start_ns), datetime_of(end_ns)]
        return connection.execute("select count(*) from gpu_samples where observed_at between ? and ?", span).fetchall()[0][0]


def messages(plant: Plant) -> int:
    """Count the messages of samples in their topic."""
    return next(state.messages for state in topic_states(plant.connection()) if state.topic.endswith(GPU_SAMPLES.name))


def stored_messages(plant: Plant) -> int:
    """Count the messages whose samples are in the lake."""
    with duckdb.connect() as connection:
        plant.lake.attach(connection, GPU_SAMPLES)
        return connection.execute("select count(*) from (select distinct origin, seq from gpu_samples)").fetchall()[0][0]
