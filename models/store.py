"""Versioned model directories: plain text with checksums, a `current` pointer moved in one step, promote and rollback.

<directory>/<name>/<version>/   model.json, <scope>.<part>.txt, calibrator.json, features.json, metrics.json, data.json, card.md,
                                SHA256SUMS
<directory>/<name>/current      first line: the version in use; below it the ones before, newest first

A model that does not match its checksums, the feature definitions of this code or this LightGBM is refused with ModelRefused: the
pointer does not move to it, and a reader keeps the model that it has.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import structlog

from features.schema import FEATURES, Feature
from ingest.errors import ModelRefused
from models.calibrate import Calibrator
from models.hazard import Part, ScopeHazard
from models.metrics import MODELS_REFUSED
from models.model import LabelOrigin, Model, ScopeModel

_log = structlog.get_logger(__name__)
_SUMS = "SHA256SUMS"
T = TypeVar("T")


class _PartFile(msgspec.Struct, frozen=True, kw_only=True):
    modes: tuple[str, ...]
    shares: tuple[float, ...]
    failures: int
    base_rate_per_h: float
    rate_per_bin: tuple[float, ...]
    file: str | None


class _ScopeFile(msgspec.Struct, frozen=True, kw_only=True):
    features: tuple[str, ...]
    parts: tuple[_PartFile, ...]
    base_rate_per_h: float
    medians: dict[str, float | None]


class _ModelFile(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    horizons_h: tuple[float, ...]
    trained_until: datetime
    label_origin: LabelOrigin
    scopes: dict[str, _ScopeFile]


class _FeaturesFile(msgspec.Struct, frozen=True, kw_only=True):
    features: tuple[dict[str, str], ...]
    sha256: str


class Store:
    """The versions of one model under `directory/name`."""

    def __init__(self, directory: str | Path, name: str, catalogue: Sequence[Feature] = FEATURES) -> None:
        self.path = Path(directory) / name
        self.name = name
        self._catalogue = tuple(catalogue)

    def save(self, model: Model, documents: dict[str, str], now: datetime) -> Model:
        """Write a new version beside the others, whole or not at all; give the model with its version.

        `documents` are the further files of the directory by name: metrics.json, data.json, card.md.
        """
        files = {**_files_of(model), **documents}
        sums = "".join(f"{_sha256(text)}  {name}\n" for name, text in sorted(files.items()))
        version = f"{now:%Y.%m.%d}-{_sha256(sums)[:6]}"
        target, building = self.path / version, self.path / f".{version}.{os.getpid()}"
        building.mkdir(parents=True, exist_ok=True)
        for name, text in {**files, _SUMS: sums}.items():
            (building / name).write_text(text)
        if target.exists():
            shutil.rmtree(building)  # the same bytes: this version is there already
        else:
            building.replace(target)
        return replace(model, version=version)

    def versions(self) -> tuple[str, ...]:
        """List the versions there are, oldest first."""
        found = (p for p in self.path.glob("*/model.json") if not p.parent.name.startswith("."))
        return tuple(p.parent.name for p in sorted(found, key=lambda p: p.stat().st_mtime_ns))

    def current(self) -> str | None:
        """Tell the version in use."""
        pointers = self._pointers()
        return pointers[0] if pointers else None

    def promote(self, version: str) -> Model:
        """Put a version in use after reading it whole; raises ModelRefused and leaves the pointer where it is."""
        model = self.load(version)
        self._point([version, *(v for v in self._pointers() if v != version)])
        _log.info("model_promoted", name=self.name, version=version)
        return model

    def rollback(self) -> Model:
        """Put the version before the current one back in use."""
        pointers = self._pointers()
        if len(pointers) < 2:
            raise ModelRefused(f"{self.path}: there is no earlier version to go back to")
        model = self.load(pointers[1])
        self._point(pointers[1:])
        _log.info("model_rolled_back", name=self.name, version=model.version)
        return model

    def load(self, version: str | None = None) -> Model:
        """Read a version, the current one where none is named; raises ModelRefused."""
        wanted = version or self.current()
        if wanted is None:
            raise ModelRefused(f"{self.path}: no version is in use yet; train one or promote one")
        directory = self.path / wanted
        if not directory.is_dir():
            raise ModelRefused(f"{self.path}: there is no version {wanted}; there are {', '.join(self.versions()) or 'none'}")
        _check_sums(directory)
        features = self._check_features(directory)
        return _read(directory, wanted, features)

    def refresh(self, held: Model | None) -> Model:
        """Give the current model; where it is refused and one is held, say so and keep the held one."""
        if held is not None and held.version == self.current():
            return held
        try:
            return self.load()
        except ModelRefused as error:
            if held is None:
                raise
            MODELS_REFUSED.labels(self.name).inc()
            _log.warning("model_refused", name=self.name, kept=held.version, why=str(error))
            return held

    def _pointers(self) -> list[str]:
        pointer = self.path / "current"
        return pointer.read_text().split() if pointer.exists() else []

    def _point(self, versions: Sequence[str]) -> None:
        building = self.path / f".current.{os.getpid()}"
        building.write_text("\n".join(versions[:20]) + "\n")
        building.replace(self.path / "current")

    def _check_features(self, directory: Path) -> tuple[Feature, ...]:
        stored = _decode(directory / "features.json", _FeaturesFile)
        known = {(feature.scope, feature.name): feature for feature in self._catalogue}
        wrong, features = [], []
        for wanted in stored.features:
            ours = known.get((wanted["scope"], wanted["name"]))
            if ours is None or _definition(ours) != wanted:
                wrong.append(f"{wanted['name']} ({'gone' if ours is None else 'defined otherwise'})")
            else:
                features.append(ours)
        if wrong:
            raise ModelRefused(f"{directory}: trained on features that this code does not have: {', '.join(wrong[:8])}; train anew")
        return tuple(features)


def features_hash(features: Sequence[Feature]) -> str:
    """Hash the definitions of features."""
    return _sha256(msgspec.json.encode([_definition(feature) for feature in features]).decode())


def _definition(feature: Feature) -> dict[str, str]:
    return {key: getattr(feature, key) for key in ("scope", "name", "family", "unit", "window")}


def _files_of(model: Model) -> dict[str, str]:
    files: dict[str, str] = {}
    scopes: dict[str, _ScopeFile] = {}
    for scope, trained in model.scopes.items():
        parts = []
        for part in trained.hazard.parts:
            file = f"{scope}.{part.modes[0] if len(part.modes) == 1 else 'rare'}.txt" if part.text else None
            if file and part.text:
                files[file] = part.text
            parts.append(
                _PartFile(
                    modes=part.modes,
                    shares=part.shares,
                    failures=part.failures,
                    base_rate_per_h=part.base_rate_per_h,
                    rate_per_bin=part.rate_per_bin,
                    file=file,
                )
            )
        scopes[scope] = _ScopeFile(
            features=trained.hazard.features,
            parts=tuple(parts),
            base_rate_per_h=trained.base_rate_per_h,
            medians=dict(trained.medians),
        )
    structure = _ModelFile(
        name=model.name,
        horizons_h=model.horizons_h,
        trained_until=model.trained_until,
        label_origin=model.label_origin,
        scopes=scopes,
    )
    definitions = tuple(_definition(feature) for feature in model.features)
    files["model.json"] = _json(structure)
    files["calibrator.json"] = _json({scope: trained.calibrator for scope, trained in model.scopes.items()})
    files["features.json"] = _json(_FeaturesFile(features=definitions, sha256=features_hash(model.features)))
    return files


def _read(directory: Path, version: str, features: tuple[Feature, ...]) -> Model:
    structure = _decode(directory / "model.json", _ModelFile)
    calibrators = _decode(directory / "calibrator.json", dict[str, Calibrator])
    scopes = {}
    for scope, stored in structure.scopes.items():
        parts = tuple(_read_part(directory, part) for part in stored.parts)
        hazard = ScopeHazard(scope=scope, horizons_h=structure.horizons_h, features=stored.features, parts=parts)
        scopes[scope] = ScopeModel(
            hazard=hazard, calibrator=calibrators[scope], base_rate_per_h=stored.base_rate_per_h, medians=stored.medians
        )
    return Model(
        name=structure.name,
        version=version,
        horizons_h=structure.horizons_h,
        scopes=scopes,
        features=features,
        trained_until=structure.trained_until,
        label_origin=structure.label_origin,
    )


def _read_part(directory: Path, stored: _PartFile) -> Part:
    part = Part(
        modes=stored.modes,
        shares=stored.shares,
        failures=stored.failures,
        base_rate_per_h=stored.base_rate_per_h,
        rate_per_bin=stored.rate_per_bin,
        text=(directory / stored.file).read_text() if stored.file else None,
    )
    _ = part.trees  # a text that this LightGBM cannot read is refused now, not at the first score
    return part


def _check_sums(directory: Path) -> None:
    sums = directory / _SUMS
    if not sums.exists():
        raise ModelRefused(f"{directory}: {_SUMS} is missing; this is not a whole model")
    for line in sums.read_text().splitlines():
        wanted, _, name = line.partition("  ")
        file = directory / name
        if not file.exists() or _sha256(file.read_text()) != wanted:
            raise ModelRefused(f"{file}: does not match its checksum; roll back or train anew")


def _decode(file: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        raise ModelRefused(f"{file}: {error}") from error


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=1).decode()


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
