#!/usr/bin/env bash
# Real Slurm on loopback for tests: munged, slurmctld, N slurmd and slurmrestd without systemd, all state in one directory;
# with ACCOUNTING=1 also slurmdbd and the database behind it, so that sacct answers.
#
#   slurm_start.sh RUN_DIR [NODES]            NODES defaults to 4; nodes are gpu001, gpu002, ... with 8 GPUs each
#   eval "$(slurm_start.sh "$dir" 4)"         sets SLURM_CONF, SLURM_REST_URL, SLURM_REST_SOCKET and SLURM_REST_VERSION
#
# Environment: CTLD_PORT (16817), REST_PORT (16820), SLURMD_BASE (16900; node i listens on SLURMD_BASE+i),
#   SLURMD_TIMEOUT (20 s), START_TIMEOUT (60 s), KEEP_STATE=1 (recover the saved controller state; default: cold start).
#   ACCOUNTING=1 with DBD_PORT (16818), MIN_JOB_AGE (3600 s; how long a job that has ended stays in the queue).
#   A RUN_DIR/etc/topology.conf written beforehand turns on topology/tree.
# Needs root and the packages slurmctld slurmd slurmrestd slurm-client munge slurm-wlm-jwt-plugin; for accounting also slurmdbd
# slurm-wlm-mysql-plugin mariadb-server-core mariadb-client-core.
# Stop with slurm_stop.sh RUN_DIR.
set -euo pipefail

die() { echo "slurm_start: $*" >&2; exit 1; }

[ $# -ge 1 ] || die "usage: slurm_start.sh RUN_DIR [NODES]"
[ "$(id -u)" = 0 ] || die "must run as root"
[ -r /proc/self/stat ] || die "/proc is not mounted"
commands=(munged slurmctld slurmd slurmrestd sinfo)
[ -z "${ACCOUNTING:-}" ] || commands+=(slurmdbd sacct mariadbd mariadb-install-db mariadb)
for c in "${commands[@]}"; do command -v "$c" >/dev/null || die "$c is not installed"; done

mkdir -p "$1"
R=$(cd "$1" && pwd -P)
N=${2:-4}
[[ $N =~ ^[1-9][0-9]{0,2}$ ]] || die "NODES must be 1..999"
CTLD_PORT=${CTLD_PORT:-16817} REST_PORT=${REST_PORT:-16820} SLURMD_BASE=${SLURMD_BASE:-16900}
DBD_PORT=${DBD_PORT:-16818}
STOP="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)/slurm_stop.sh"

case $R in *[[:space:]%]*) die "RUN_DIR must contain neither white space nor %" ;; esac
# slurmstepd binds RUN_DIR/spool/NODE/NODE_JOB.STEP; past 108 characters a job is silently held ("launch failed requeued held").
[ ${#R} -le 70 ] || die "RUN_DIR has ${#R} characters; at most 70 leave room for the Unix sockets below it"

version=$(slurmctld -V | awk '{print $2}')
major=${version%%.*}

for f in "$R"/pid/*.pid; do
  [ -s "$f" ] && kill -0 "$(cat "$f")" 2>/dev/null && die "already running ($f); stop it first"
done
rm -f "$R"/pid/*.pid
for p in "$CTLD_PORT" "$REST_PORT" $(seq $((SLURMD_BASE + 1)) $((SLURMD_BASE + N))); do
  (exec 3<> "/dev/tcp/127.0.0.1/$p") 2>/dev/null && die "port $p is taken"
done
# From here on a failure stops whatever was started.
finish() {
  local rc=$?
  [ $rc -eq 0 ] || { tail -n 5 "$R"/log/*.log >&2 || true; "$STOP" "$R" >&2 || true; }
  exit $rc
}
trap finish EXIT

mkdir -p "$R"/{etc,munge,state,spool,log,pid,dev}
chmod 755 "$R" "$R/munge"

# munge with a key and a socket of its own: neither /etc/munge nor the user munge is needed
[ -s "$R/munge/munge.key" ] || (umask 077; head -c 1024 /dev/urandom > "$R/munge/munge.key")
munged --force --key-file="$R/munge/munge.key" --socket="$R/munge/munge.socket" --pid-file="$R/pid/munged.pid" \
       --log-file="$R/log/munged.log" --seed-file="$R/munge/munge.seed" --num-threads=2

# key of the JWT that slurmrestd accepts
[ -s "$R/etc/jwt_hs256.key" ] || (umask 077; head -c 32 /dev/urandom > "$R/etc/jwt_hs256.key")

H=$(hostname -s)
cat > "$R/etc/slurm.conf" <<CONF
ClusterName=testfleet
SlurmctldHost=$H(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort=$CTLD_PORT
AuthType=auth/munge
AuthInfo=socket=$R/munge/munge.socket
CredType=cred/munge
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=$R/etc/jwt_hs256.key
StateSaveLocation=$R/state
SlurmdSpoolDir=$R/spool/%n
SlurmctldPidFile=$R/pid/slurmctld.pid
SlurmdPidFile=$R/pid/slurmd-%n.pid
SlurmctldLogFile=$R/log/slurmctld.log
SlurmdLogFile=$R/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=2,requeue_setup_env_fail
ReturnToService=1
JobRequeue=1
GresTypes=gpu
SlurmdParameters=config_overrides
SlurmctldTimeout=10
SlurmdTimeout=${SLURMD_TIMEOUT:-20}
InactiveLimit=0
KillWait=2
MinJobAge=${MIN_JOB_AGE:-3600}
MailProg=/bin/true
TreeWidth=64
CONF
# Listen on loopback alone. These options bind to what the host name resolves to, so they fit only where that is 127.0.0.1.
loopback_only=
[ "$(getent ahostsv4 "$H" | awk 'NR == 1 { print $1 }')" != 127.0.0.1 ] || loopback_only=CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
echo "$loopback_only" >> "$R/etc/slurm.conf"
[ ! -s "$R/etc/topology.conf" ] || echo "TopologyPlugin=topology/tree" >> "$R/etc/slurm.conf"
if [ -n "${ACCOUNTING:-}" ]; then
  cat >> "$R/etc/slurm.conf" <<CONF
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$DBD_PORT
AccountingStoragePass=socket=$R/munge/munge.socket
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment
CONF
fi
for ((i = 1; i <= N; i++)); do
  printf 'NodeName=gpu%03d NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=8 RealMemory=1000 Gres=gpu:8 Features=rack%d State=UNKNOWN\n' \
         "$i" "$H" $((SLURMD_BASE + i)) $(((i - 1) / 2 + 1)) >> "$R/etc/slurm.conf"
done
printf 'PartitionName=train Nodes=gpu[001-%03d] Default=YES MaxTime=INFINITE DefaultTime=60 State=UP\n' "$N" >> "$R/etc/slurm.conf"

# Plain empty files stand in for the device nodes; with Count= alone a node becomes INVAL ("count reported lower").
for g in 0 1 2 3 4 5 6 7; do : > "$R/dev/nvidia$g"; done
echo "Name=gpu File=$R/dev/nvidia[0-7]" > "$R/etc/gres.conf"

if [ "$major" -ge 23 ]; then
  echo "CgroupPlugin=disabled" > "$R/etc/cgroup.conf"
  rest_args=(-s "slurmctld${ACCOUNTING:+,slurmdbd}" -d "v0.0.40,v0.0.41,v0.0.42")
  rest_version=v0.0.42
else
  rest_args=(-s "openapi/v0.0.36,openapi/v0.0.37,openapi/v0.0.38${ACCOUNTING:+,openapi/dbv0.0.36,openapi/dbv0.0.37,openapi/dbv0.0.38}")
  rest_version=v0.0.38
fi

export SLURM_CONF=$R/etc/slurm.conf

if [ -n "${ACCOUNTING:-}" ]; then
  # A database of its own that only the socket in RUN_DIR reaches; it may forget the last second in a crash, as it is there for a test.
  export MYSQL_UNIX_PORT=$R/db.socket
  [ -d "$R/db/mysql" ] || mariadb-install-db --no-defaults --user=root --datadir="$R/db" --skip-test-db \
    --auth-root-authentication-method=normal > "$R/log/mariadb.log" 2>&1
  mariadbd --no-defaults --user=root --datadir="$R/db" --socket="$R/db.socket" --pid-file="$R/pid/mariadbd.pid" --skip-networking \
    --innodb-buffer-pool-size=32M --innodb-log-file-size=16M --innodb-flush-log-at-trx-commit=0 >> "$R/log/mariadb.log" 2>&1 < /dev/null &
  until mariadb --no-defaults --socket="$R/db.socket" -u root -e 'select 1' > /dev/null 2>&1; do
    kill -0 $! 2>/dev/null || die "the database ended while starting"
    sleep 0.1
  done
  (umask 077; cat > "$R/etc/slurmdbd.conf" <<CONF
AuthType=auth/munge
AuthInfo=socket=$R/munge/munge.socket
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=$R/etc/jwt_hs256.key
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$DBD_PORT
SlurmUser=root
LogFile=$R/log/slurmdbd.log
PidFile=$R/pid/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
$loopback_only
CONF
  )
  slurmdbd >&2
  end=$((SECONDS + ${START_TIMEOUT:-60}))
  until [ "$(timeout 5 sacctmgr -n -P list cluster format=cluster 2> /dev/null)" = testfleet ]; do
    [ $SECONDS -lt $end ] || die "slurmdbd does not answer"
    timeout 5 sacctmgr -i -Q add cluster testfleet > /dev/null 2>&1 || sleep 0.1
  done
fi

if [ -n "${KEEP_STATE:-}" ]; then slurmctld -f "$SLURM_CONF"; else slurmctld -c -f "$SLURM_CONF"; fi >&2
for ((i = 1; i <= N; i++)); do slurmd -N "$(printf 'gpu%03d' "$i")" -f "$SLURM_CONF" >&2; done

# Two of them, over TCP for tokens and on a socket for root itself. As root slurmrestd refuses to start without disable_user_check.
export SLURMRESTD_SECURITY=disable_user_check
SLURM_JWT=daemon setsid slurmrestd -f "$SLURM_CONF" "${rest_args[@]}" \
  -a rest_auth/jwt "127.0.0.1:$REST_PORT" > "$R/log/slurmrestd.log" 2>&1 < /dev/null &
echo $! > "$R/pid/slurmrestd.pid"
rm -f "$R/rest.socket"
setsid slurmrestd -f "$SLURM_CONF" "${rest_args[@]}" \
  -a rest_auth/local "unix:$R/rest.socket" > "$R/log/slurmrestd-socket.log" 2>&1 < /dev/null &
echo $! > "$R/pid/slurmrestd-socket.pid"

# Ready: every node has registered (a node is "unknown" or "idle*" before that) and both slurmrestd listen.
end=$((SECONDS + ${START_TIMEOUT:-60}))
until [ "$(timeout 5 sinfo -h -N -o %T 2>/dev/null | grep -vc -e unknown -e '\*' || true)" -ge "$N" ]; do
  [ $SECONDS -lt $end ] || die "nodes did not register in time: $(timeout 5 sinfo -h -N -o '%N %T' | tr '\n' ';')"
  sleep 0.1
done
until [ -S "$R/rest.socket" ] && (exec 3<> "/dev/tcp/127.0.0.1/$REST_PORT") 2>/dev/null; do
  for f in "$R"/pid/slurmrestd*.pid; do kill -0 "$(cat "$f")" 2>/dev/null || die "slurmrestd died"; done
  [ $SECONDS -lt $end ] || die "slurmrestd does not listen"
  sleep 0.1
done

rest_url=http://127.0.0.1:$REST_PORT
echo "export SLURM_CONF=$SLURM_CONF SLURM_REST_URL=$rest_url SLURM_REST_SOCKET=unix:$R/rest.socket SLURM_REST_VERSION=$rest_version"
