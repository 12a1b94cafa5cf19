"""The pods on a GPU are told when they change, beside the samples and never instead of them."""

from ingest.clock import NS
from ingest.exporter.node import ExporterNode
from ingest.schema import GpuPods, GpuSample, Observed

UUID = "GPU-00000000-0000-4000-8000-000000000000"
POWER = 'DCGM_FI_DEV_POWER_USAGE{{gpu="0",UUID="{uuid}"{more}}} 612\n'
SHARE = 'DCGM_FI_PROF_SM_ACTIVE{{gpu="0",UUID="{uuid}",GPU_I_ID="{instance}",namespace="a",pod="{pod}",container="c"}} 0.5\n'


def page(*pods: str) -> bytes:
    more = [f',namespace="a",pod="{pod}",container="c"' for pod in pods] or [""]
    return "".join(POWER.format(uuid=UUID, more=each) for each in more).encode()


def pods(records: list[Observed]) -> list[tuple[int | None, tuple[str, ...]]]:
    return [(row.gpu_instance, row.pods) for row in records if isinstance(row, GpuPods)]


def test_pods_are_told_when_they_change() -> None:
    """Two pods, then one, then none are three rows; the same pods again are none; the GPU has one sample each time."""
    node, at_s, told = ExporterNode("n"), 0, []
    for names in (("x", "y"), ("y", "x"), ("y",), (), ()):
        at_s += 30
        records = node.scraped(page(*names), 200, at_s * NS)
        told.append(pods(records))
        assert [row.power_w for row in records if isinstance(row, GpuSample)] == [612.0]
    assert told == [[(None, ("a/x/c", "a/y/c"))], [], [(None, ("a/y/c",))], [(None, ())], []]


def test_pods_are_told_once_per_hour() -> None:
    """Who comes late learns within an hour which pods are there."""
    node = ExporterNode("n")
    at_s = range(3_600, 3 * 3_600 + 30, 30)
    told = [at for at in at_s if pods(node.scraped(page("x"), 200, at * NS))]
    assert told == [3_600, 7_200, 10_800]


def test_pods_of_mig_instances_are_kept_apart() -> None:
    """Each instance has the pods of its own series."""
    node = ExporterNode("n")
    body = "".join(SHARE.format(uuid=UUID, instance=instance, pod=pod) for instance, pod in ((2, "y"), (1, "x")))
    assert pods(node.scraped(body.encode(), 200, NS)) == [(1, ("a/x/c",)), (2, ("a/y/c",))]


def test_cut_page_takes_no_pod_away() -> None:
    """Of a page that was cut nobody knows which pods stood behind its end."""
    node = ExporterNode("n")
    node.scraped(page("x", "y"), 200, 30 * NS)
    assert pods(node.scraped(page("x", "y")[:-20], 200, 60 * NS)) == []
    assert pods(node.scraped(page("x", "y"), 200, 90 * NS)) == []
