"""What several benchmarks stand on: samples as fleets send them, one real broker, and what a process has used."""
