"""Let DuckDB read a lake on object storage, without an extension: Arrow's S3 client behind fsspec.

DuckDB's own `httpfs` is not in its package and cannot be fetched at a site without internet; the options are those of the lake
(`AWS_ENDPOINT_URL`, `AWS_REGION`, ...); what they leave out comes from the environment or the machine's role, as for any AWS client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
from fsspec.implementations.arrow import ArrowFSWrapper
from pyarrow.fs import S3FileSystem

_NAMES = {
    "AWS_ACCESS_KEY_ID": "access_key",
    "AWS_SECRET_ACCESS_KEY": "secret_key",
    "AWS_SESSION_TOKEN": "session_token",
    "AWS_REGION": "region",
}


class _S3(ArrowFSWrapper):  # type: ignore[misc]  # the library has no types
    protocol = "s3"


def register(connection: duckdb.DuckDBPyConnection, options: Mapping[str, str]) -> None:
    """Make s3:// addresses readable for a connection; once is enough, twice does no harm."""
    if not connection.filesystem_is_registered("s3"):
        connection.register_filesystem(_S3(client(options)))


def client(options: Mapping[str, str]) -> S3FileSystem:
    """Build Arrow's client from the lake's options."""
    return S3FileSystem(**_client_options(options))


def _client_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Translate the lake's options into those of Arrow's client."""
    given = {name.upper(): value for name, value in options.items()}
    client: dict[str, Any] = {ours: given[theirs] for theirs, ours in _NAMES.items() if theirs in given}
    scheme, _, host = given.get("AWS_ENDPOINT_URL", "").rpartition("://")
    if host:
        client |= {"endpoint_override": host.rstrip("/"), "scheme": scheme or "https"}
    return client
