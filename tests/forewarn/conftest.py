"""What tests of the command share."""

from __future__ import annotations

from tests.nvml_machines import nvml_cache

__all__ = ["nvml_cache"]
