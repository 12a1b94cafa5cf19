#!/usr/bin/env bash
# Stop the broker that kafka_start.sh started in RUN_DIR; its data stays.
#
#   kafka_stop.sh RUN_DIR           asks it to shut down, and insists after 30 s
#   kafka_stop.sh RUN_DIR KILL      ends it at once (SIGKILL), as a crash would
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: kafka_stop.sh RUN_DIR [KILL]" >&2; exit 1; }
[ -s "$1/kafka.pid" ] || exit 0
pid=$(cat "$1/kafka.pid")
kill -"${2:-TERM}" "$pid" 2> /dev/null || true
for _ in $(seq 150); do
  kill -0 "$pid" 2> /dev/null || { rm -f "$1/kafka.pid"; exit 0; }
  sleep 0.2
done
kill -KILL "$pid" 2> /dev/null || true
rm -f "$1/kafka.pid"
