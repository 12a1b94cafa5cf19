"""Scrape the pages of many exporters beside Prometheus and VictoriaMetrics: the same pages, the same interval, the same run.

All of them keep what they read on disk: forewarn in its spool (no broker is there), Prometheus and VictoriaMetrics in their stores, vmagent
in its queue for a store that is away. Prints CPU time per sample of each, its ratio to Prometheus, and the share of a core at 24,000
samples/s; exits with 1 when forewarn takes more than 15 % of one there. Peers are found on the PATH or in `--peers DIR`: Debian has them
as `prometheus` and `victoria-metrics`. Peers that are not there are left out.
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import tomli_w
from aiohttp import web

from benchmarks.exporter_parse import FAMILIES, GPUS
from benchmarks.rig.process import cpu_s, memory_mb

SAMPLES = len(FAMILIES) * GPUS
MOST_SHARE, AT_SAMPLES = 0.15, 24_000
VERSIONS = 16  # of each page; counters of one grow over those of the one before
START_S = 240.0  # until all have read every page twice: the first time nothing is known of any series
LABELS = (
    'gpu="{gpu}",UUID="GPU-{target:04x}0000-1111-4222-8333-44445555666{gpu}",pci_bus_id="00000000:{gpu}8:00.0",device="nvidia{gpu}",'
    'modelName="NVIDIA H100 80GB HBM3",hostname="gpu-node-{target}",DCGM_FI_DRIVER_VERSION="580.105.08"'
)


def pages(target: int) -> list[bytes]:
    """Print the versions of one node's page, packed: counters that stand or grow, gauges that tremble."""
    rng = random.Random(target)
    grows = {(family.name, gpu): rng.choice((0, 0, 0, 1, 10**9)) for family in FAMILIES for gpu in range(GPUS)}
    return [gzip.compress(_page(rng, target, version, grows), 1) for version in range(VERSIONS)]


def _page(rng: random.Random, target: int, version: int, grows: dict[tuple[str, int], int]) -> bytes:
    lines = []
    for family in FAMILIES:
        lines += (f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.type}")
        for gpu in range(GPUS):
            grown = grows[family.name, gpu] * version
            value = str(grown) if family.type == "counter" or not grown else f"{rng.uniform(0, 90):f}"
            lines.append(f"{family.name}{{{LABELS.format(target=target, gpu=gpu)}}} {value}")
    return "\n".join((*lines, "")).encode()


def serve(targets: int, port: multiprocessing.Queue[int]) -> None:
    """Serve `/READER/TARGET`, to each reader its own next version of a page, and at `/served` how many pages each has had."""
    known = [pages(target) for target in range(targets)]
    served: Counter[tuple[str, int]] = Counter()

    async def give(request: web.Request) -> web.Response:
        key = request.match_info["reader"], int(request.match_info["target"])
        body = known[key[1]][served[key] % VERSIONS]
        served[key] += 1
        return web.Response(body=body, headers={"Content-Encoding": "gzip", "Content-Type": "text/plain; version=0.0.4"})

    async def count(_: web.Request) -> web.Response:
        told: Counter[str] = Counter()
        for (reader, _target), times in served.items():
            told[reader] += times
        return web.json_response(told)

    app = web.Application()
    app.add_routes([web.get("/served", count), web.get("/{reader}/{target}", give)])
    listening = socket.create_server(("127.0.0.1", 0))
    port.put(listening.getsockname()[1])
    web.run_app(app, sock=listening, print=None)


def served(port: int) -> Counter[str]:
    """Ask how many pages each reader has had."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/served", timeout=30) as answer:
        return Counter(json.load(answer))


def commands(directory: Path, port: int, options: argparse.Namespace) -> dict[str, list[str]]:
    """Configure every reader that is there; give the command that starts each."""
    path = os.pathsep.join(filter(None, (options.peers, os.environ.get("PATH"))))
    found = {name: shutil.which(name, path=path) for name in ("prometheus", "victoria-metrics", "vmagent")}
    for name in ("prometheus", "victoria-metrics", "vmagent"):
        (directory / f"{name}.yml").write_text(_prometheus_file(name, port, options))
    forewarn = directory / "forewarn.toml"
    exporter = {f"n{target}": f"http://127.0.0.1:{port}/forewarn/{target}" for target in range(options.targets)}
    collect = {"interval_s": options.interval, "metrics_port": 0, "deadline_s": 10.0, "exporter": exporter}
    told = {"fleet": {"state_dir": str(directory / "state")}, "bus": {"kind": "kafka", "bootstrap": "127.0.0.1:9"}, "collect": collect}
    forewarn.write_text(tomli_w.dumps(told))
    quiet = "127.0.0.1:0"
    arguments = {
        "prometheus": [
            f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/tsdb", f"--web.listen-address={quiet}",
        ],
        "victoria-metrics": [
            f"-promscrape.config={directory}/victoria-metrics.yml", f"-storageDataPath={directory}/vm", f"-httpListenAddr={quiet}",
        ],
        "vmagent": [
            f"-promscrape.config={directory}/vmagent.yml", f"-remoteWrite.tmpDataPath={directory}/queue", f"-httpListenAddr={quiet}",
            "-remoteWrite.url=http://127.0.0.1:9/write",
        ],
    }  # fmt: skip
    peers = {name: [command, *arguments[name]] for name, command in found.items() if command}
    return {"forewarn": [sys.executable, "-m", "forewarn", "collect", "--config", str(forewarn)], **peers}


def _prometheus_file(reader: str, port: int, options: argparse.Namespace) -> str:
    targets = [{"targets": [f"127.0.0.1:{port}"], "labels": {"__metrics_path__": f"/{reader}/{n}"}} for n in range(options.targets)]
    interval = f"{options.interval:g}s"
    job = {"job_name": "dcgm", "scrape_interval": interval, "scrape_timeout": interval, "static_configs": targets}
    return json.dumps({"scrape_configs": [job]})  # YAML contains JSON


@contextmanager
def running(command: list[str], log: Path) -> Iterator[int]:
    """Run a reader; gives its process id."""
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield process.pid
        finally:
            process.terminate()


def wait_until_warm(port: int, readers: dict[str, int], pages_each: int) -> None:
    """Wait until every reader has had every page twice."""
    deadline = time.monotonic() + START_S
    while min(served(port)[name] for name in readers) < pages_each:
        if time.monotonic() > deadline:
            raise SystemExit(f"not all readers have come to {pages_each} pages: {dict(served(port))}")
        time.sleep(1.0)


def measure(port: int, readers: dict[str, int], seconds: float) -> dict[str, tuple[int, float, float]]:
    """Give pages, CPU seconds and resident MB of every reader within a time."""
    before = served(port), {name: cpu_s(pid) for name, pid in readers.items()}
    time.sleep(seconds)
    after = served(port)
    return {name: (after[name] - before[0][name], cpu_s(pid) - before[1][name], memory_mb(pid)) for name, pid in readers.items()}


def report(found: dict[str, tuple[int, float, float]], options: argparse.Namespace) -> float:
    """Print the figures; give the share of a core that forewarn takes at 24,000 samples/s."""
    cost = {name: spent / (count * SAMPLES) for name, (count, spent, _) in found.items()}
    print(
        f"{options.targets} pages of {SAMPLES} samples every {options.interval:g} s, {options.seconds:g} s, load {os.getloadavg()[0]:.1f}"
    )
    for name, (count, spent, mb) in found.items():
        ratio = f"{cost[name] / cost['prometheus']:6.2f} of Prometheus" if "prometheus" in cost else ""
        share = cost[name] * AT_SAMPLES
        print(
            f"{name:17} {count:6} pages {spent:7.2f} CPU-s {cost[name] * 1e6:7.2f} us a sample {share:6.1%} of a core {mb:5.0f} MB {ratio}"
        )
    return cost["forewarn"] * AT_SAMPLES


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--targets", type=int, default=100)
    parser.add_argument("--interval", type=float, default=5.0)
    parser.add_argument("--peers", help="folder with the peers' commands, before the PATH")
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    ports: multiprocessing.Queue[int] = context.Queue()
    server = context.Process(target=serve, args=(options.targets, ports), daemon=True)
    server.start()
    port = ports.get()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        directory = Path(folder)
        readers = {
            name: stack.enter_context(running(command, directory / f"{name}.log"))
            for name, command in commands(directory, port, options).items()
        }
        wait_until_warm(port, readers, 2 * options.targets)
        share = report(measure(port, readers, options.seconds), options)
    server.terminate()
    return 0 if share <= MOST_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
