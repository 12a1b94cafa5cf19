"""Build `libnvidia-ml.so.1` with the system's C compiler and keep it: one folder per source, header version and variant."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emulators.nvml import fields, generate, getters, layout
from emulators.nvml.header import Header, find_header
from emulators.nvml.variants import CURRENT, Variant

LIBRARY, WRITER = "libnvidia-ml.so.1", "libnvml-writer.so"
_SOURCE = Path(__file__).parent / "source"
_FLAGS = ("-O2", "-fPIC", "-Wall", "-Werror", "-Wno-deprecated-declarations", "-Werror=incompatible-pointer-types", "-shared", "-pthread")


class CompilerMissing(Exception):
    """There is no C compiler; install gcc or clang as `cc`."""


def default_cache() -> Path:
    """Folder that keeps built libraries between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "forewarn" / "nvml"


def build_library(cache_dir: Path | None = None, variant: Variant = CURRENT) -> Path:
    """Give the folder to put on LD_LIBRARY_PATH, building it at first use; raises HeaderMissing or CompilerMissing."""
    header = find_header()
    folder = (cache_dir or default_cache()) / _key(header, variant)
    with _locked(folder):
        if not (folder / LIBRARY).exists():
            compiler = shutil.which("cc")
            if compiler is None:
                raise CompilerMissing("no C compiler named cc; install gcc or clang")
            with tempfile.TemporaryDirectory(dir=folder) as work:
                _build(compiler, header, variant, Path(work))
                for name in (WRITER, LIBRARY):
                    (Path(work) / name).replace(folder / name)
    return folder


def _key(header: Header, variant: Variant) -> str:
    digest = hashlib.sha256(f"{header.version} {variant} {sorted(variant.hidden)} {_FLAGS}".encode())
    for module in (fields, generate, getters, layout):
        digest.update(Path(str(module.__file__)).read_bytes())
    for path in sorted(_SOURCE.iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    return f"{variant.name}-{header.version}-{digest.hexdigest()[:16]}"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(compiler: str, header: Header, variant: Variant, work: Path) -> None:
    sources = [path for path in sorted(_SOURCE.glob("*.c")) if path.name != "writer.c"]
    defined = [call for path in sources for call in generate.defined_calls(path.read_text())]
    written = {
        "layout.h": generate.layout_header(),
        "tables.c": generate.tables_source(),
        "getters.c": generate.getters_source(header.prototypes, variant.hidden),
        "stubs.c": generate.stubs_source(header.prototypes, defined, variant.hidden),
        "exports.map": generate.version_script(header.prototypes, variant.hidden),
    }
    for name, text in written.items():
        (work / name).write_text(text)
    includes = (f"-I{work}", f"-I{_SOURCE}", f"-I{header.path.parent}")
    switches = (f"-DEMU_GENERATION={variant.generation}", *variant.switches)
    linking = (f"-Wl,-soname,{LIBRARY}", f"-Wl,--version-script={work / 'exports.map'}")
    generated = [work / name for name in written if name.endswith(".c")]
    _compile(compiler, *_FLAGS, *includes, *switches, *sources, *generated, *linking, "-o", work / LIBRARY)
    _compile(compiler, *_FLAGS, f"-I{work}", f"-I{_SOURCE}", _SOURCE / "writer.c", "-o", work / WRITER)


def _compile(*command: str | Path) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"BUG: the emulated NVML library does not build\n{done.stderr[:4000]}")
