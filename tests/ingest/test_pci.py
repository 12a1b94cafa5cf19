"""PCI addresses in all spellings."""

import pytest

from ingest.pci import pci_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:1B:00.0", "0000:1b:00"),
        ("0000:1b:00", "0000:1b:00"),
        ("PCI:0000:1B:00", "0000:1b:00"),
        ("00000009:01:00.0", "0009:01:00"),
        ("00018:01:00.0", "0018:01:00"),
        (" 0000:CA:1f.7 ", "0000:ca:1f"),
        ("", None),
        ("1b:00.0", None),
        ("0000:1b:00.9", None),
        ("0000:zz:00", None),
    ],
)
def test_spellings(text: str, address: str | None) -> None:
    """Exporter, NVML and kernel log name one seat alike; the domain is kept, the function is not."""
    assert pci_address(text) == address
