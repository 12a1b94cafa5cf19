"""A long run of the collector over many emulated nodes while everything goes wrong: `python -m tests.soak --minutes 30`."""
