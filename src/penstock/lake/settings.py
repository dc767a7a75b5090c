"""What Spark must be told to reach a lake: settings without secrets, and the private file that holds the secret."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.lake.base import Credentials, Lake
from penstock.lake.credentials import as_ini

CREDENTIALS_FILE = "aws-credentials"
"""The name of the private file; the cluster backend chooses the directory (`{private}`)."""

_PROFILE = "penstock"

ENVIRONMENT: Mapping[str, str] = {
    "AWS_SHARED_CREDENTIALS_FILE": f"{{private}}/{CREDENTIALS_FILE}",
    "AWS_PROFILE": _PROFILE,
}
"""Points the driver's and the executors' AWS SDK at the private file."""


def spark_settings(lake: Lake) -> dict[str, str]:
    """Settings of S3A itself that follow from the lake alone.

    S3A knows one endpoint; it is given the first, and `gateway_settings` adds the others. The provider reads the file
    of `ENVIRONMENT`, so that no secret is ever a setting, which Spark would print in its UI and event log.
    """
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
    """Settings by which Penstock's file system uses every gateway of the lake.

    A lake with one endpoint has the client too: its name may stand for several addresses.
    """
    return {
        "spark.hadoop.fs.s3a.s3.client.factory.impl": "io.penstock.fs.gateways.GatewayClientFactory",
        "spark.hadoop.fs.s3a.penstock.endpoints": ",".join(lake.endpoints),
    }


def private_credentials_file(credentials: Credentials) -> str:
    """The content of the private file, an AWS credentials file."""
    return as_ini({_PROFILE: credentials})
