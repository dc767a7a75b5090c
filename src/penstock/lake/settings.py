"""Spark's access to a lake: settings without secrets, and the private file that contains the secret.

An HDFS lake has no secret, so no private file is written for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.formats import certificates
from penstock.lake.credentials import format_ini, parse_ini
from penstock.lake.model import Credentials, HdfsClient, Lake, Sts
from penstock.lake.sts import Lease

CREDENTIALS_FILE = "aws-credentials"
"""The name of the private file; the cluster backend chooses the directory (`{private}`)."""

AUTHORITIES_FILE = "lake-authorities.pem"
"""The file beside it with the certificates of the lake's own authorities, if it has any."""

AUTHORITIES_VARIABLE = "AWS_CA_BUNDLE"
"""The variable through which users' own S3 clients find the authorities; a JVM ignores it."""

EMPTY_BODIES = "io.penstock.fs.store.EmptyBodies"
"""The interceptor that signs empty objects in a way that Ceph 16 accepts."""

_PROFILE = "penstock"
_NAMENODE = "only"
_ISSUED, _EXPIRES = "issued_at", "expires_at"

ENVIRONMENT: Mapping[str, str] = {
    "AWS_SHARED_CREDENTIALS_FILE": f"{{private}}/{CREDENTIALS_FILE}",
    "AWS_PROFILE": _PROFILE,
}
"""Points the driver's and the executors' AWS SDK at the private file."""


def spark_settings(lake: Lake) -> dict[str, str]:
    """Settings of Hadoop's own client that follow from the lake alone.

    S3A supports a single endpoint, the first; `gateway_settings` adds the others. The provider reads the file of
    `ENVIRONMENT`, so that no secret is ever a setting, which Spark would print in its UI and event log.
    """
    if lake.hdfs is not None:
        return _hdfs_settings(lake.bucket, lake.hdfs)
    endpoint = lake.endpoints[0]
    return {
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": lake.region,
        "spark.hadoop.fs.s3a.path.style.access": str(lake.path_style).lower(),
        "spark.hadoop.fs.s3a.connection.ssl.enabled": str(endpoint.startswith("https://")).lower(),
        "spark.hadoop.fs.s3a.aws.credentials.provider": (
            "software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider"
        ),
    }


def gateway_settings(lake: Lake) -> dict[str, str]:
    """Settings with which Penstock's file system uses every gateway of the lake, and renewed credentials.

    A lake with one endpoint uses the same client, because the endpoint's name may resolve to several addresses.
    """
    if not lake.is_s3:
        return {}
    return {
        **({} if lake.sts is None else _temporary(lake.name, lake.sts)),
        "spark.hadoop.fs.s3a.s3.client.factory.impl": "io.penstock.fs.gateways.GatewayClientFactory",
        "spark.hadoop.fs.s3a.penstock.endpoints": ",".join(lake.endpoints),
        # SeaweedFS lists a directory for minutes after its last object is gone, so a dropped table's name stays taken.
        **({"spark.hadoop.fs.s3a.penstock.directories.linger": "true"} if lake.directories_linger else {}),
    }


def _temporary(name: str, sts: Sts) -> dict[str, str]:
    many = {} if sts.deletes_many else {"spark.hadoop.fs.s3a.multiobjectdelete.enable": "false"}
    return {
        "spark.hadoop.fs.s3a.aws.credentials.provider": "io.penstock.fs.credentials.RefreshingCredentialsProvider",
        # Applications have different keys but the same rights, so they may share cached pages.
        "spark.hadoop.fs.s3a.penstock.cache.scope": f"{name} {sts.role_arn or ''}".strip(),
        **many,
    }


def private_files(lake: Lake, given: Credentials | Lease | None) -> dict[str, str]:
    """The private files of the lake's clients: name → content. `given` is None for a lake without credentials.

    Raises `InvalidInput` if the lake's `ca_file` can no longer be read, or contains no certificates.
    """
    if given is None or not lake.is_s3:
        return {}
    files = {CREDENTIALS_FILE: private_credentials_file(given)}
    if lake.ca_file is not None:
        files[AUTHORITIES_FILE] = "".join(certificates(lake.ca_file))
    return files


def environment(lake: Lake) -> Mapping[str, str]:
    """The variables through which clients find the private files; `{private}` stands for their directory."""
    if not lake.is_s3:
        return {}
    authorities = {} if lake.ca_file is None else {AUTHORITIES_VARIABLE: f"{{private}}/{AUTHORITIES_FILE}"}
    return {**ENVIRONMENT, **authorities}


def private_credentials_file(given: Credentials | Lease) -> str:
    """The content of the private file, an AWS credentials file; a lease's times are added for its renewal."""
    if isinstance(given, Credentials):
        return format_ini({_PROFILE: given})
    times = {_ISSUED: f"{given.issued_at:.3f}", _EXPIRES: f"{given.expires_at:.3f}"}
    return format_ini({_PROFILE: given.credentials}, also={_PROFILE: times})


def parse_lease(content: str) -> Lease | None:
    """Parse the result of `private_credentials_file`; None if the credentials are permanent or the file is another."""
    try:
        credentials, keys = parse_ini(content)[_PROFILE]
        return Lease(credentials, float(keys[_ISSUED]), float(keys[_EXPIRES]))
    except (KeyError, ValueError):
        return None


def _hdfs_settings(name: str, client: HdfsClient) -> dict[str, str]:
    """Settings for the logical name service and short-circuit reads.

    Hadoop's newer short-circuit reads pass descriptors through a domain socket, which needs its native library; these
    legacy ones get a block's path from the DataNode and do not need it.
    """
    prefix = "spark.hadoop.dfs."
    local = str(client.short_circuit).lower()
    return {
        f"{prefix}nameservices": name,
        f"{prefix}ha.namenodes.{name}": _NAMENODE,
        f"{prefix}namenode.rpc-address.{name}.{_NAMENODE}": client.namenode,
        f"{prefix}client.failover.proxy.provider.{name}": (
            "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
        ),
        # Pauses double from half a second, for half a minute in total: a NameNode comes back within that time.
        f"{prefix}client.failover.max.attempts": "7",
        # A client that requests a block's path from a dead DataNode waits for ten retries at this interval.
        "spark.hadoop.ipc.client.connect.retry.interval": "200",
        f"{prefix}replication": str(client.replication),
        f"{prefix}client.read.shortcircuit": local,
        f"{prefix}client.use.legacy.blockreader.local": local,
    }
