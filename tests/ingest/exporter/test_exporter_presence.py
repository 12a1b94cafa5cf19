"""Which GPUs an exporter page shows, misses and swaps, and what that says about its source."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from emulators.exporter_quirks import Quirks
from ingest.exporter.node import ExporterNode
from ingest.schema import InventoryRow
from tests.ingest.exporter.test_exporter_node import UUIDS, Site, events, samples, states


@pytest.fixture
def site() -> Site:
    """Make a node whose page is read."""
    return Site()


def hide(*numbers: int) -> Callable[[Site], None]:
    def apply(site: Site) -> None:
        for number in numbers:
            site.gpus[number].is_hidden = True

    return apply


def test_one_gpu_that_vanishes_is_missing_once_and_again_after_its_return(site: Site) -> None:
    """A missing GPU is one event per absence; flickering is not news."""
    site.scrape()
    site.gpus[5].is_lost = True
    assert events(site.scrape()) == [("gpu_missing", UUIDS[5], None)]
    assert events(site.scrape()) == []
    site.gpus[5].is_lost = False
    site.scrape()
    site.gpus[5].is_lost = True
    assert events(site.scrape()) == []
    site.gpus[5].is_lost = False
    for _ in range(3):
        site.scrape()
    site.gpus[5].is_lost = True
    assert events(site.scrape()) == [("gpu_missing", UUIDS[5], None)]


def test_most_gpus_vanishing_at_once_is_the_exporters_doing(site: Site) -> None:
    """Seven of eight gone in one scrape say nothing about hardware; the state is partial until they are back."""
    site.scrape()
    hide(0, 1, 2, 3, 4, 5, 6)(site)
    records = site.scrape()
    assert (events(records), states(records), list(samples(records))) == ([], ["partial"], [UUIDS[7]])
    assert events(site.scrape()) == []
    for gpu in site.gpus:
        gpu.is_hidden = False
    assert states(site.scrape()) == ["ok"]


def test_idle_gpus_dropped_when_pods_come_are_not_missing(site: Site) -> None:
    """When the survivors have just got pods, the GPUs without are merely left out (dcgm-exporter#569)."""
    site.scrape()
    site.quirks = Quirks(pods=dict.fromkeys(UUIDS[:6], ("w-0",)), drops_idle=True)
    records = site.scrape()
    assert (events(records), states(records)) == ([], ["partial"])


def test_pods_that_come_and_go_are_no_entities(site: Site) -> None:
    """Pod labels change series strings and nothing else."""
    site.scrape()
    for pod in range(5):
        site.quirks = Quirks(pods=dict.fromkeys(UUIDS, (f"w-{pod}", f"v-{pod}")))
        records = site.scrape()
        assert events(records) == []
        assert states(records) == []
        assert [row.power_w for row in samples(records).values()] == [412.0] * 8


def test_a_stalled_host_engine_is_a_state_and_no_missing_gpu(site: Site) -> None:
    """A page without any GPU for three scrapes is a stalled host engine (XID 119 blanks every field of every GPU)."""
    site.scrape()
    site.quirks = Quirks(is_stalled=True)
    assert [states(site.scrape()) for _ in range(4)] == [["empty"], [], ["hostengine_stalled"], []]
    site.quirks = Quirks()
    records = site.scrape()
    assert (states(records), events(records), len(samples(records))) == (["ok"], [], 8)


def test_a_page_scraped_faster_than_it_is_refreshed_is_not_stale(site: Site) -> None:
    """Values that repeat within the exporter's refresh interval are as fresh as they can be."""
    site.node = ExporterNode("n1", refresh_s=30.0)
    said = []
    for scrape in range(12):
        site.at_s -= 20  # every 10 s
        said += states(site.scrape(work=scrape % 3 == 0))
    assert said == ["ok"]


def test_staleness_ends_when_energy_moves(site: Site) -> None:
    """A frozen page is stale until a counter moves, and idle GPUs alone prove nothing."""
    site.scrape()
    assert states(site.scrape(work=False)) == ["stale"]
    assert states(site.scrape()) == ["ok"]
    for gpu in site.gpus:
        gpu.power_w = 40.0
    assert [states(site.scrape(work=False)) for _ in range(5)] == [[]] * 5


def test_a_cut_page_accuses_no_gpu(site: Site) -> None:
    """GPUs that a cut page does not get to are unknown, not missing."""
    site.scrape()
    records = site.scrape(body=site.page()[:1_500])
    assert (events(records), states(records)) == ([], ["partial"])
    assert not any(row.gpu_present is False for row in samples(records).values())


def test_a_swapped_gpu_takes_the_seat(site: Site) -> None:
    """A new UUID at the address of one that is gone is a replacement: removed, inserted, not missing."""
    site.scrape()
    swapped = replace(site.gpus[2], gpu_uuid="GPU-ffffffff-1111-4222-8333-444455556662", serial="1650000009999", energy_mj_total=0)
    site.gpus[2] = swapped
    records = site.scrape()
    rows = [(r.action, r.gpu_uuid, r.serial, r.pci) for r in records if isinstance(r, InventoryRow)]
    assert rows == [
        ("remove", UUIDS[2], "1650000000002", "0000:38:00"),
        ("insert", swapped.gpu_uuid, "1650000009999", "0000:38:00"),
    ]
    assert events(records) == []


def test_two_new_gpus_at_one_address_replace_one(site: Site) -> None:
    """A page that puts two unknown GPUs into the same seat removes its old GPU once."""
    site.scrape()
    page = site.page().replace(UUIDS[2].encode(), b"GPU-ffffffff-1111-4222-8333-444455556662")
    twice = page + b'DCGM_FI_DEV_GPU_TEMP{UUID="GPU-eeeeeeee",pci_bus_id="00000000:38:00.0"} 41\n'
    rows = [record for record in site.scrape(body=twice) if isinstance(record, InventoryRow)]
    assert (rows[0].action, rows[0].gpu_uuid) == ("remove", UUIDS[2])
    assert [row.action for row in rows].count("remove") == 1


def test_gpus_of_the_inventory_that_never_showed_are_missing() -> None:
    """A GPU that the inventory names is missing from the first page that lacks it."""
    site = Site()
    site.node = ExporterNode("n1", expected=[*UUIDS, "GPU-99999999-1111-4222-8333-444455556669"])
    assert events(site.scrape()) == [("gpu_missing", "GPU-99999999-1111-4222-8333-444455556669", None)]


def test_windowed_counts_give_each_xid_and_silence_the_gauge(site: Site) -> None:
    """A rise of the windowed count is that many events, a fall is none, and the gauge adds nothing to them."""
    site.scrape()
    site.gpus[0].xid_last = 31
    site.quirks = Quirks(xid_counts={UUIDS[0]: {31: 2}})
    assert events(site.scrape()) == [("xid", UUIDS[0], 31)] * 2
    site.quirks = Quirks(xid_counts={UUIDS[0]: {31: 3, 43: 1}})
    assert events(site.scrape()) == [("xid", UUIDS[0], 31), ("xid", UUIDS[0], 43)]
    site.quirks = Quirks(xid_counts={UUIDS[0]: {31: 1}})
    assert events(site.scrape()) == []


def test_an_absent_gauge_is_no_alarm(site: Site) -> None:
    """From DCGM 4.5 on there is no series before the first XID, and none after the host engine restarted."""
    site.gpus[0].xid_last = 31
    site.scrape()
    site.gpus[0].xid_last = None
    records = site.scrape()
    assert (events(records), samples(records)[UUIDS[0]].quality, samples(records)[UUIDS[0]].xid_last) == ([], None, None)


def test_states_are_said_at_a_change_and_hourly(site: Site) -> None:
    """A state that lasts is repeated once per hour."""
    assert [states(site.scrape()) for _ in range(3)] == [["ok"], [], []]
    site.at_s += 3_600
    assert states(site.scrape()) == ["ok"]


def test_no_record_of_a_page_carries_the_exporters_host(site: Site) -> None:
    """The node is the target's; the exporter's host label is not even kept (dcgm-exporter#572)."""
    body = site.page().replace(b'hostname="n1"', b'hostname="localhost"')
    records: list[Any] = site.scrape(body=body)
    assert {record.node for record in records} == {"n1"}
