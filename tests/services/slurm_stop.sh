#!/usr/bin/env bash
# Stops the Slurm that slurm_start.sh started in RUN_DIR, and only that: daemons by their pid files, each checked by name;
# job steps by the directory they run in.
#
#   slurm_stop.sh RUN_DIR
#
# Jobs are cancelled first, since slurmstepd processes outlive slurmd by design. Safe to call twice.
# Exit status 1 when something still runs JOB_TIMEOUT (10 s) plus STOP_TIMEOUT (10 s) later.
set -uo pipefail

[ $# -eq 1 ] || { echo "usage: slurm_stop.sh RUN_DIR" >&2; exit 2; }
[ -d "$1/pid" ] || exit 0
R=$(cd "$1" && pwd -P)
export SLURM_CONF=$R/etc/slurm.conf

# alive PID NAME: the process exists, has that name and is no zombie (an init that does not reap leaves those)
alive() {
  local comm stat
  read -r comm 2>/dev/null < "/proc/$1/comm" && read -r stat 2>/dev/null < "/proc/$1/stat" || return 1
  [[ $comm == "$2"* && $stat != *") Z "* ]]
}

# steps: pids of this cluster's slurmstepd processes (they work in slurmd's log directory)
steps() {
  local d comm
  for d in /proc/[0-9]*; do
    read -r comm 2>/dev/null < "$d/comm" || continue
    [ "$comm" = slurmstepd ] && [ "$(readlink "$d/cwd" 2>/dev/null)" = "$R/log" ] && echo "${d#/proc/}"
  done
}

# below PID: every descendant of PID
below() {
  ps -e -o pid= -o ppid= | awk -v top="$1" '
    { parent[$1] = $2 }
    END { for (p in parent) for (q = parent[p]; q in parent || q == top; q = parent[q]) if (q == top) { print p; break } }'
}

if alive "$(cat "$R/pid/slurmctld.pid" 2>/dev/null || echo 0)" slurmctld; then
  ids=$(timeout 5 squeue -h -o %A | sort -u)
  # shellcheck disable=SC2086
  [ -z "$ids" ] || timeout 5 scancel $ids
  end=$((SECONDS + ${JOB_TIMEOUT:-10}))
  while [ -n "$(timeout 5 squeue -h -o %A)" ] && [ $SECONDS -lt $end ]; do sleep 0.2; done
fi

rc=0
end=$((SECONDS + ${STOP_TIMEOUT:-10}))
# Front ends first; munged last, since the others authenticate through it.
for name in slurmrestd slurmd slurmctld slurmdbd mariadbd munged; do
  # The daemons remove their pid files before they are gone: remember the pids.
  pids=()
  for f in "$R/pid/$name".pid "$R/pid/$name"-*.pid; do
    read -r pid 2>/dev/null < "$f" && alive "$pid" "$name" && pids+=("$pid") && kill "$pid" 2>/dev/null
  done
  for pid in ${pids[@]+"${pids[@]}"}; do
    while alive "$pid" "$name" && [ $SECONDS -lt $end ]; do sleep 0.05; done
    if alive "$pid" "$name"; then echo "slurm_stop: $name ($pid) still runs" >&2; rc=1; fi
  done
done
[ $rc -ne 0 ] || rm -f "$R"/pid/*.pid

# Steps of a node whose slurmd died before cannot be reached by scancel: end their processes, then the step itself.
for p in $(steps); do
  for q in $(below "$p"); do kill -9 "$q" 2>/dev/null; done
  kill -9 "$p" 2>/dev/null
done
exit $rc
