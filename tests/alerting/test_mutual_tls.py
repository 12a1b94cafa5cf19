"""A consumer that demands a client certificate gets it, and one that is not ours gets nothing."""

from __future__ import annotations

import ipaddress
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from alerting.delivery import Delivery, Endpoint
from alerting.ledger import Ledger
from ingest.clock import ManualClock, SystemClock

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def certificate(name: str, path: Path, issuer: tuple[Any, Any] | None = None) -> tuple[Any, Any]:
    """Write key and certificate of `name` into one PEM file, signed by `issuer` or by itself as an authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer_key, issuer_name = issuer or (key, subject)
    now = datetime.now(UTC)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer_name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    builder = builder.add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    signed = builder.add_extension(alternative, critical=False).sign(issuer_key, hashes.SHA256())
    plain = serialization.NoEncryption()
    text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(text + signed.public_bytes(serialization.Encoding.PEM))
    return key, subject


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """Serve 202 over TLS to those whose certificate our authority has signed."""
    authority = certificate("authority", tmp_path / "authority.pem")
    certificate("server", tmp_path / "server.pem", authority)
    certificate("client", tmp_path / "client.pem", authority)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            pass  # a refused handshake is what the test is about

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "authority.pem"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(tmp_path / "server.pem")
    server = Server(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("shows", "trusts", "state"),
    [("client.pem", "authority.pem", "done"), (None, "authority.pem", "pending"), ("client.pem", None, "pending")],
)
def test_mutual_tls(
    *, url: str, tmp_path: Path, ledger: Ledger, clock: ManualClock, shows: str | None, trusts: str | None, state: str
) -> None:
    """Delivered with our certificate to a server of our authority; else neither side talks."""
    sql = (
        "insert into outbox (id, endpoint, key, body, created_wall_ns, expires_ns, next_wall_ns) values ('m', 'scheduler', 'k', ?, ?, ?, 0)"
    )
    with ledger.database.transaction() as connection:
        connection.execute(sql, (b"{}", SystemClock().now_ns(), 2 * clock.now_ns()))
    endpoint = Endpoint(
        name="scheduler",
        url=url,
        secrets=(SECRET,),
        certificate=str(tmp_path / shows) if shows else None,
        authority=str(tmp_path / trusts) if trusts else True,
    )
    delivery = Delivery(ledger.database, endpoint, clock=clock)
    delivery.deliver_due()
    delivery.close()
    assert delivery.outbox.counts() == {state: 1}
