"""Certificates of an emulated management network: an authority, and leaves for its BMCs."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Authority:
    """A certificate authority with its files in a folder: `ca.pem` is what clients trust."""

    folder: Path
    now: datetime

    @property
    def path(self) -> Path:
        """Tell where the authority's certificate is."""
        return self.folder / "ca.pem"

    def create(self) -> Authority:
        """Write a new authority; its extensions satisfy Python's strict verification."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.KeyUsage(
            digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
            key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        name = _name("Example BMC authority")
        builder = _builder(name, name, key, self.now - _DAY, self.now + 3650 * _DAY)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(usage, critical=True)
        _write(self.path, key, builder.sign(key, hashes.SHA256()))
        return self

    def issue(self, host: str = "127.0.0.1", *, days: int = 365) -> Path:
        """Write a leaf with its key for a host (an address or a name); a negative number of days makes it expired."""
        authority_key = serialization.load_pem_private_key(self.path.read_bytes(), None)
        assert isinstance(authority_key, ec.EllipticCurvePrivateKey), "BUG: the authority's key is of another kind"
        authority = x509.load_pem_x509_certificate(self.path.read_bytes())
        key = ec.generate_private_key(ec.SECP256R1())
        until = self.now + days * _DAY
        builder = _builder(_name(host), authority.subject, key, min(self.now, until) - _DAY, until)
        builder = builder.add_extension(x509.SubjectAlternativeName([_alternative(host)]), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        builder = builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        path = self.folder / f"{host}.pem"
        _write(path, key, builder.sign(authority_key, hashes.SHA256()))
        return path


def server_context(leaf: Path) -> ssl.SSLContext:
    """Make the TLS context of a server from a leaf with its key."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(leaf)
    return context


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, since: datetime, until: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(since).not_valid_after(until)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _write(path: Path, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    path.touch(mode=0o600)
    path.write_bytes(pem + certificate.public_bytes(serialization.Encoding.PEM))
