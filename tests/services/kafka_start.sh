#!/usr/bin/env bash
# One real Apache Kafka on loopback for tests: a single KRaft node (broker and controller in one JVM), all its state in one directory.
#
#   kafka_start.sh RUN_DIR                  formats RUN_DIR/data the first time; later starts keep what is there
#   eval "$(kafka_start.sh "$dir")"         sets KAFKA_BOOTSTRAP
#
# Environment: KAFKA_PORT (19092), KAFKA_CONTROLLER_PORT (KAFKA_PORT + 1), KAFKA_LIB (where the jars are kept between runs; default
#   RUN_DIR/lib; Maven fills it the first time), KAFKA_HEAP (384m), KAFKA_PARTITIONS (3), START_TIMEOUT (60 s), KAFKA_EXTRA (lines appended to
#   server.properties: TLS, SASL, ACLs).
# Needs Java 17 or later and, the first time, Maven (Debian: openjdk-17-jre-headless maven).
set -euo pipefail

die() { echo "kafka_start: $*" >&2; exit 1; }
listens() { (exec 3<> "/dev/tcp/127.0.0.1/$1") 2> /dev/null; }

[ $# -eq 1 ] || die "usage: kafka_start.sh RUN_DIR"
command -v java > /dev/null || die "java is not installed (Debian: openjdk-17-jre-headless)"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
mkdir -p "$1"
run=$(cd "$1" && pwd -P)
port=${KAFKA_PORT:-19092}
controller_port=${KAFKA_CONTROLLER_PORT:-$((port + 1))}
lib=${KAFKA_LIB:-$run/lib}

[ -s "$run/kafka.pid" ] && kill -0 "$(cat "$run/kafka.pid")" 2> /dev/null && die "already running as $(cat "$run/kafka.pid"); stop it first"
for taken in "$port" "$controller_port"; do listens "$taken" && die "port $taken is taken"; done

if [ ! -e "$lib/.complete" ]; then
  command -v mvn > /dev/null || die "mvn is not installed and $lib holds no broker (Debian: maven)"
  mkdir -p "$lib"
  mvn -q -B -f "$here/kafka/pom.xml" dependency:copy-dependencies -DoutputDirectory="$lib" -DincludeScope=runtime >&2
  touch "$lib/.complete"
fi

cat > "$run/server.properties" << PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:$controller_port
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller_port
advertised.listeners=PLAINTEXT://127.0.0.1:$port
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
log.dirs=$run/data
num.partitions=${KAFKA_PARTITIONS:-3}
auto.create.topics.enable=false
offsets.topic.num.partitions=3
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=3
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=3
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=500
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
num.network.threads=2
num.io.threads=4
${KAFKA_EXTRA:-}
PROPERTIES

if [ ! -e "$run/data/meta.properties" ]; then
  id=$(head -c 16 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=')
  java -cp "$lib/*" -Xmx128m -Dorg.slf4j.simpleLogger.defaultLogLevel=warn kafka.tools.StorageTool \
    format --standalone --cluster-id="$id" --config "$run/server.properties" ${KAFKA_FORMAT:-} >> "$run/kafka.log" 2>&1 \
    || { tail -n 20 "$run/kafka.log" >&2; die "formatting $run/data failed"; }
fi

java -cp "$lib/*" -Dorg.slf4j.simpleLogger.defaultLogLevel=info -Dorg.slf4j.simpleLogger.showDateTime=true \
  -Xms128m -Xmx"${KAFKA_HEAP:-384m}" -XX:+UseSerialGC -XX:TieredStopAtLevel=4 -Djava.awt.headless=true ${KAFKA_OPTS:-} \
  kafka.Kafka "$run/server.properties" >> "$run/kafka.log" 2>&1 < /dev/null &
echo $! > "$run/kafka.pid"

for _ in $(seq $((${START_TIMEOUT:-60} * 5))); do
  kill -0 "$(cat "$run/kafka.pid")" 2> /dev/null || { tail -n 20 "$run/kafka.log" >&2; rm -f "$run/kafka.pid"; die "the broker ended while starting"; }
  if listens "$port"; then
    echo "export KAFKA_BOOTSTRAP=127.0.0.1:$port"
    exit 0
  fi
  sleep 0.2
done
tail -n 20 "$run/kafka.log" >&2
die "not listening on $port after ${START_TIMEOUT:-60} s"
