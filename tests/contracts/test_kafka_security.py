"""At a broker with TLS, passwords and access rules the bus works, and says in one line within ten seconds why it cannot."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from ingest.errors import BusUnavailable, StreamsMoved
from ingest.kafka_admin import KafkaConnection, connect, create_topics
from ingest.kafka_bus import KafkaPublisher, KafkaSubscriber
from ingest.schema import Event
from ingest.spool import Spool, Spooled

pytestmark = pytest.mark.kafka

PROPERTIES = """
listeners=SASL_SSL://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=SASL_SSL://127.0.0.1:{port}
inter.broker.listener.name=SASL_SSL
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" \
password="admin-word" user_admin="admin-word" user_collector="collector-word" user_writer="writer-word";
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin;User:ANONYMOUS
"""


def certificate(
    name: str, issuer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Make a certificate for 127.0.0.1, signed by the issuer or by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key((issuer[1] if issuer else key).public_key()), critical=False)
        .sign(issuer[1] if issuer else key, hashes.SHA256())
    )
    return made, key


def pem(made: x509.Certificate) -> bytes:
    """Write a certificate as text."""
    return made.public_bytes(serialization.Encoding.PEM)


@dataclass(frozen=True)
class Secured:
    """A broker that checks everybody."""

    collector: KafkaConnection  # may write to s.events
    writer: KafkaConnection  # may read s.events and write s.rejected
    admin: KafkaConnection
    other_authority: Path


@pytest.fixture(scope="module")
def secured(
    tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int], start_broker: object, stop_broker: object
) -> Iterator[Secured]:
    """Run a broker with TLS, SASL and access rules."""
    directory = tmp_path_factory.mktemp("secured")
    authority, other = certificate("authority", None), certificate("other", None)
    (directory / "authority.pem").write_bytes(pem(authority[0]))
    (directory / "other.pem").write_bytes(pem(other[0]))
    server, key = certificate("broker", authority)
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (directory / "keystore.pem").write_bytes(private + pem(server) + pem(authority[0]))
    port, controller_port = free_port(), free_port()
    address = start_broker(
        directory,
        KAFKA_PORT=str(port),
        KAFKA_CONTROLLER_PORT=str(controller_port),
        KAFKA_EXTRA=PROPERTIES.format(
            port=port, controller_port=controller_port, keystore=directory / "keystore.pem", authority=directory / "authority.pem"
        ),
        KAFKA_FORMAT="--add-scram SCRAM-SHA-512=[name=writer,password=writer-word]",
    )
    admin = KafkaConnection(
        bootstrap=address,
        prefix="s",
        group="s",
        connect_timeout_s=6.0,
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        username="admin",
        password="admin-word",
        ca_file=directory / "authority.pem",
    )
    create_topics(admin, partitions=1, replication=1, tables=("events", "jobs"))
    grant(admin, "collector", ResourceType.TOPIC, "s.events", ACLOperation.WRITE)
    grant(admin, "writer", ResourceType.TOPIC, "s.events", ACLOperation.READ)
    grant(admin, "writer", ResourceType.TOPIC, "s.rejected", ACLOperation.WRITE)
    grant(admin, "writer", ResourceType.GROUP, "s", ACLOperation.READ)
    yield Secured(
        collector=replace(admin, username="collector", password="collector-word"),
        writer=replace(admin, username="writer", password="writer-word", sasl_mechanism="SCRAM-SHA-512"),
        admin=admin,
        other_authority=directory / "other.pem",
    )
    stop_broker(directory, "KILL")


def grant(admin: KafkaConnection, user: str, kind: ResourceType, name: str, operation: ACLOperation) -> None:
    """Allow one thing to one user."""
    with connect(admin) as client:
        client.create_acls([ACL(f"User:{user}", "*", operation, ACLPermissionType.ALLOW, ResourcePattern(kind, name))])


def message(directory: Path, table: str) -> list[Spooled]:
    """Spool one event, and call it a message of the table."""
    spool = Spool(directory / "spool")
    spool.put("events", "n1", [Event(node="n1", kind="xid", code=79, observed_at_ns=1, received_at_ns=1, source="t")])
    taken = [one._replace(table=table) for one in spool.take(1)]
    spool.close()
    return taken


def test_a_collector_by_password_and_a_writer_by_scram_do_their_work(secured: Secured, tmp_path: Path) -> None:
    """With TLS, each with its own mechanism and no more rights than it needs."""
    publisher, subscriber = KafkaPublisher(secured.collector), KafkaSubscriber(secured.writer, tables=("events",))
    sent = message(tmp_path, "events")
    assert publisher.publish(sent) == []
    publisher.close()
    subscriber.open()
    found, deadline = [], time.monotonic() + 20
    while not found and time.monotonic() < deadline:
        try:
            found = subscriber.poll(0.5)
        except StreamsMoved:
            subscriber.rewind()
    subscriber.commit({found[0].stream: found[0].offset + 1})
    subscriber.close()
    assert [delivery.body for delivery in found] == [sent[0].body]


MISTAKES = [
    (
        "wrong password",
        lambda s: replace(s.collector, password="guessed"),
        "events",
        "wrong user or password; check username and password_file",
    ),
    (
        "unknown authority",
        lambda s: replace(s.collector, ca_file=s.other_authority),
        "events",
        "not signed by a known authority; set ca_file",
    ),
    ("no authority", lambda s: replace(s.collector, ca_file=None), "events", "not signed by a known authority; set ca_file"),
    (
        "nobody there",
        lambda s: replace(s.collector, bootstrap="127.0.0.1:1", connect_timeout_s=KafkaConnection.connect_timeout_s),
        "events",
        "nothing listens there; start the broker or check bootstrap",
    ),
    ("no such host", lambda s: replace(s.collector, bootstrap="broker.invalid:9092"), "events", "no such host; check bootstrap"),
    ("without TLS", lambda s: replace(s.collector, security_protocol="SASL_PLAINTEXT"), "events", "check security_protocol"),
    ("missing topic", lambda s: replace(s.admin), "outcomes", "has no topic s.outcomes; create them with: forewarn topics"),
    ("denied topic", lambda s: replace(s.collector), "jobs", "collector may not use topic s.jobs; grant it there"),
]


@pytest.mark.parametrize(("mistaken", "table", "said"), [mistake[1:] for mistake in MISTAKES], ids=[mistake[0] for mistake in MISTAKES])
def test_what_is_wrong_is_said_in_one_line_within_ten_seconds(
    secured: Secured, tmp_path: Path, mistaken: Callable[[Secured], KafkaConnection], table: str, said: str
) -> None:
    """The error names the reason and the mend; the library's own would be "unable to bootstrap" for most."""
    publisher = KafkaPublisher(mistaken(secured))
    sent, started = message(tmp_path, table), time.monotonic()
    with pytest.raises(BusUnavailable) as caught:
        publisher.publish(sent)
    assert time.monotonic() - started < 10
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_writer_hears_the_same_reasons(secured: Secured) -> None:
    """A subscriber that may not read a topic, or that comes with a wrong password, says so when it opens."""
    with pytest.raises(BusUnavailable, match=r"writer may not use topic s.jobs; grant it there"):
        KafkaSubscriber(secured.writer, tables=("jobs",)).open()
    with pytest.raises(BusUnavailable, match="wrong user or password"):
        KafkaSubscriber(replace(secured.writer, password="guessed"), tables=("events",)).open()
