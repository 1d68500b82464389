"""The certificate authority and the key pairs of one cluster, made in memory and written beside its data."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = datetime.timedelta(days=365)
# Clocks of a laptop and a container differ by a little.
_BACKDATE = datetime.timedelta(minutes=5)


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its key on disk."""

    certificate: Path
    key: Path


def _write_private(path: Path, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)


def _pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _name(common_name: str, organisation: str | None = None) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organisation:
        parts.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation))
    return x509.Name(parts)


def _alternative_name(value: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(value))
    except ValueError:
        return x509.DNSName(value)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATE)
        .not_valid_after(now + _LIFETIME)
    )


class Authority:
    """A certificate authority that writes itself and what it signs into one folder."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        self._certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.pair = KeyPair(folder / f"{name}.crt", folder / f"{name}.key")
        self.pair.certificate.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))
        _write_private(self.pair.key, _pem_key(self._key))

    def issue(
        self, file_name: str, common_name: str, organisation: str | None = None, hosts: Iterable[str] = ()
    ) -> KeyPair:
        """A key pair good for a client, and for a server of the given host names and addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = (
            _builder(_name(common_name, organisation), self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        names = [_alternative_name(host) for host in hosts]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        pair = KeyPair(self._folder / f"{file_name}.crt", self._folder / f"{file_name}.key")
        certificate = builder.sign(self._key, hashes.SHA256())
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        _write_private(pair.key, _pem_key(key))
        return pair


def service_account_keys(folder: Path) -> KeyPair:
    """The key that signs service account tokens; its public half stands in place of a certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    pair = KeyPair(folder / "service-account.pub", folder / "service-account.key")
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    pair.certificate.write_bytes(public)
    _write_private(pair.key, _pem_key(key))
    return pair
