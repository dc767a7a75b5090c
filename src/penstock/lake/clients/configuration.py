"""Configuration with which other engines and libraries reach a lake and its tables. Pure.

Each is a file in its client's own format that works as it is. Secrets are referred to, never contained: the store's
keys by AWS's variables, the service's token by `PENSTOCK_TOKEN` or the client's own variable. Iceberg tables come from
a service; all tables, without a token, from a metastore service. A client in `VENDED` can do without keys where the
catalog gives it temporary ones for each table.
"""

from __future__ import annotations

import configparser
import enum
import io
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from penstock.formats import as_properties, configuration_xml, sql_text
from penstock.lake.model import Lake
from penstock.lake.settings import spark_settings
from penstock.profiles.known import HADOOP_PREFIX

TOKEN_VARIABLE = "PENSTOCK_TOKEN"  # noqa: S105  the name of a variable
METASTORE = "thrift://127.0.0.1:9083"
"""The usual address of a Hive metastore."""
PACKAGES = ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0", "org.apache.hadoop:hadoop-aws:3.4.2")
"""Maven coordinates of the jars with which plain Spark 4.1 uses Iceberg tables in a lake."""

_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_DUCKDB_TOKEN = "penstock_token"  # noqa: S105  the name of a variable
_PYICEBERG_TOKEN = "PYICEBERG_CATALOG__LAKE__TOKEN"  # noqa: S105  the name of a variable


class LakeClient(str, enum.Enum):
    """A client, by the name that its users know."""

    AWS = "aws"
    DUCKDB = "duckdb"
    HIVE = "hive"
    PYICEBERG = "pyiceberg"
    SAIL = "sail"
    SPARK = "spark"
    TRINO = "trino"


VENDED = (LakeClient.DUCKDB, LakeClient.PYICEBERG)
"""The clients that were tried with credentials from the catalog."""


@dataclass(frozen=True)
class Access:
    """A lake as one client sees it. `credentials_file` has the profile that the lake's `credentials` name.

    `service` is the URL of a `penstock serve` without a trailing slash. The client works in its `instance`; with None,
    in the only one of its token. With `vended` it has no keys of the lake, and the catalog gives it temporary ones.
    `metastore` is the address of a `penstock catalog serve`.
    """

    lake: Lake
    credentials_file: Path
    service: str
    instance: str | None
    vended: bool = False
    metastore: str = METASTORE

    @property
    def catalog(self) -> str:
        return f"{self.service}/iceberg"

    def warehouse(self, name: str) -> dict[str, str]:
        """The instance as the property of this name, which Iceberg's clients call the warehouse."""
        return {} if self.instance is None else {name: self.instance}

    @property
    def endpoint(self) -> str:
        """The first gateway: these clients take one."""
        return self.lake.endpoints[0]

    @property
    def profile(self) -> str | None:
        """The lake's profile in AWS's files, if its keys are in one."""
        source, _, profile = self.lake.credentials.partition(":")
        return profile if source in {"file", "aws"} else None

    @property
    def variables(self) -> dict[str, str | None]:
        """The variables by which a client finds the store's keys, with the values that are no secrets."""
        if self.vended:
            return {}
        if self.profile is None:
            return dict.fromkeys(_KEYS)
        in_home = self.lake.credentials.startswith("file:")
        own = {"AWS_SHARED_CREDENTIALS_FILE": str(self.credentials_file)} if in_home else {}
        return {**own, "AWS_PROFILE": self.profile}


def configuration(client: LakeClient, access: Access) -> str:
    """The client's file, which begins with how it is used."""
    form = _FORMS[client]
    variables = {**access.variables, **({} if form.token is None else {form.token: None})}
    lines = [
        f"The lake “{access.lake.name}” for {form.title}. {form.use}",
        "Variables of the environment in which it runs:",
        *(f"  export {name}={'…' if value is None else shlex.quote(value)}" for name, value in variables.items()),
    ]
    if access.lake.ca_file is not None:
        lines.append(f"It must trust the authority in {access.lake.ca_file}.")
    return form.with_comments(lines, form.content(access))


def _aws(access: Access) -> str:
    """A file for `AWS_CONFIG_FILE`."""
    profile = access.profile or "default"
    file = configparser.ConfigParser(interpolation=None, default_section="\0")
    file["default" if profile == "default" else f"profile {profile}"] = {
        "region": access.lake.region,
        "endpoint_url": access.endpoint,
        "s3": f"\naddressing_style = {'path' if access.lake.path_style else 'virtual'}",
        **({} if access.lake.ca_file is None else {"ca_bundle": access.lake.ca_file}),
    }
    text = io.StringIO()
    file.write(text)
    return text.getvalue().rstrip() + "\n"


def _duckdb(access: Access) -> str:
    # Without a chain of its own, DuckDB takes variables before a profile, as all of AWS's clients do.
    secret = duckdb_secret("penstock", access.lake, access.endpoint, {"PROVIDER": "credential_chain"})
    extensions = ("httpfs", "iceberg") if access.vended else ("httpfs", "aws", "iceberg")
    options = {
        "TYPE": "iceberg",
        "ENDPOINT": sql_text(access.catalog),
        "TOKEN": f"getvariable('{_DUCKDB_TOKEN}')",
        "ACCESS_DELEGATION_MODE": sql_text("vended_credentials" if access.vended else "none"),
    }
    return (
        "".join(f"INSTALL {name}; LOAD {name};\n" for name in extensions)
        + ("" if access.vended else f"{secret};\n")
        + f"ATTACH {sql_text(access.instance or '')} AS lake ({_listed(options)});\n"
    )


def duckdb_secret(name: str, lake: Lake, endpoint: str, keys: Mapping[str, str]) -> str:
    """The statement by which DuckDB reads the lake there; `keys` are more options, with their values as SQL."""
    options = {
        "TYPE": "s3",
        **keys,
        "REGION": sql_text(lake.region),
        "ENDPOINT": sql_text(urlsplit(endpoint).netloc),
        "URL_STYLE": sql_text("path" if lake.path_style else "vhost"),
        "USE_SSL": str(endpoint.startswith("https:")).lower(),
        "SCOPE": f"[{', '.join(map(sql_text, addresses(lake)))}]",
    }
    return f"CREATE OR REPLACE SECRET {name} ({_listed(options)})"


def addresses(lake: Lake) -> list[str]:
    """The beginnings of the lake's addresses: tables' locations have the first form."""
    return [f"{scheme}://{lake.bucket}/" for scheme in ("s3a", "s3")]


def _listed(options: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in options.items())


def _hive(access: Access) -> str:
    store = {name.removeprefix(HADOOP_PREFIX): value for name, value in _s3a_settings(access).items()}
    return configuration_xml({"hive.metastore.uris": access.metastore, **store})


def _s3a_settings(access: Access) -> dict[str, str]:
    """Spark's settings by which S3A reaches the lake."""
    provider = "EnvironmentVariableCredentialsProvider" if access.profile is None else "ProfileCredentialsProvider"
    return {
        **spark_settings(access.lake),
        f"{HADOOP_PREFIX}fs.s3a.aws.credentials.provider": f"software.amazon.awssdk.auth.credentials.{provider}",
    }


def _pyiceberg(access: Access) -> str:
    properties = {
        "type": "rest",
        "uri": access.catalog,
        **access.warehouse("warehouse"),
        "s3.endpoint": access.endpoint,
        "s3.region": access.lake.region,
        **({} if access.lake.path_style else {"s3.force-virtual-addressing": "true"}),
        **({"header.X-Iceberg-Access-Delegation": "vended-credentials"} if access.vended else {}),
    }
    # A JSON string is a YAML string, whatever is in it.
    return "catalog:\n  lake:\n" + "".join(f"    {name}: {json.dumps(text)}\n" for name, text in properties.items())


def _sail(access: Access) -> str:
    """A script for a shell, which fills in the token: Sail has no other variable for it than its list of catalogs."""
    catalog = {"type": "iceberg-rest", "name": "lake", "uri": access.catalog, **access.warehouse("warehouse")}
    before, after = shlex.quote(f'[{{{sail_table(catalog)}, oauth_access_token = "'), shlex.quote('"}]')
    variables = {**sail_store(access.lake, access.endpoint), "SAIL_CATALOG__DEFAULT_CATALOG": json.dumps("lake")}
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    return exports + f'export SAIL_CATALOG__LIST={before}"${TOKEN_VARIABLE}"{after}\n'


def sail_store(lake: Lake, endpoint: str) -> dict[str, str]:
    """The variables by which Sail reads the lake there, without its keys."""
    return {
        "AWS_ENDPOINT": endpoint,
        "AWS_ALLOW_HTTP": str(endpoint.startswith("http:")).lower(),
        "AWS_REGION": lake.region,
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": str(not lake.path_style).lower(),
    }


def sail_table(values: Mapping[str, str]) -> str:
    """The values of an inline table in Sail's form, which is TOML's, without its braces."""
    # A string of JSON is one of TOML.
    return ", ".join(f"{name} = {json.dumps(value)}" for name, value in values.items())


def _spark(access: Access) -> str:
    settings = {
        "spark.jars.packages": ",".join(PACKAGES),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "rest",
        "spark.sql.catalog.lake.uri": access.catalog,
        **access.warehouse("spark.sql.catalog.lake.warehouse"),
        "spark.sql.catalog.lake.rest.auth.type": "oauth2",
        "spark.sql.catalog.lake.token": f"env:{TOKEN_VARIABLE}",
        "spark.sql.catalog.lake.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        # A session that keeps tables does not see what others commit.
        "spark.sql.catalog.lake.cache-enabled": "false",
        **_s3a_settings(access),
    }
    return _properties(settings)


def _properties(settings: Mapping[str, str]) -> str:
    """A properties file for people, too: within a value, a colon needs no escape."""
    return as_properties(settings).replace("\\:", ":")


def _trino(access: Access) -> str:
    return _properties(
        {
            "connector.name": "iceberg",
            "iceberg.catalog.type": "rest",
            "iceberg.rest-catalog.uri": access.catalog,
            **access.warehouse("iceberg.rest-catalog.warehouse"),
            "iceberg.rest-catalog.security": "OAUTH2",
            "iceberg.rest-catalog.oauth2.token": f"${{ENV:{TOKEN_VARIABLE}}}",
            "fs.native-s3.enabled": "true",
            "s3.endpoint": access.endpoint,
            "s3.region": access.lake.region,
            "s3.path-style-access": str(access.lake.path_style).lower(),
        }
    )


@dataclass(frozen=True)
class _Form:
    """The form of one client's file. `token` names the variable with the service's token, None without a catalog."""

    title: str
    use: str
    token: str | None
    content: Callable[[Access], str]
    comment: str = "#"

    def with_comments(self, lines: Sequence[str], content: str) -> str:
        return "".join(f"{self.comment} {line}\n" for line in lines) + content


class _XmlForm(_Form):
    def with_comments(self, lines: Sequence[str], content: str) -> str:
        declaration, rest = content.split("\n", maxsplit=1)
        # XML allows no two dashes in a comment; to a shell, an empty text between them is nothing.
        comments = (re.sub("-(?=-)", "-''", line) for line in lines)
        return "\n".join([declaration, *(f"<!-- {line} -->" for line in comments), rest])


_FORMS = {
    LakeClient.AWS: _Form("boto3 and AWS's command", "Name this file in AWS_CONFIG_FILE.", None, _aws),
    LakeClient.DUCKDB: _Form(
        "DuckDB",
        f"First SET VARIABLE {_DUCKDB_TOKEN} = getenv('{TOKEN_VARIABLE}'); then .read this file.",
        TOKEN_VARIABLE,
        _duckdb,
        comment="--",
    ),
    LakeClient.HIVE: _XmlForm(
        "clients of Hive's metastore (plain Spark, Impala)",
        "Save as hive-site.xml in their directory of configuration.",
        None,
        _hive,
    ),
    LakeClient.PYICEBERG: _Form(
        "PyIceberg", 'Save as ~/.pyiceberg.yaml, then load_catalog("lake").', _PYICEBERG_TOKEN, _pyiceberg
    ),
    LakeClient.SAIL: _Form(
        "Sail",
        f"Export {TOKEN_VARIABLE}, then source this file: . FILE && sail spark server.",
        TOKEN_VARIABLE,
        _sail,
    ),
    LakeClient.SPARK: _Form(
        "plain Spark 4.1",
        "spark-submit --properties-file FILE; tables are lake.DATABASE.TABLE.",
        TOKEN_VARIABLE,
        _spark,
    ),
    LakeClient.TRINO: _Form("Trino", "Save as etc/catalog/lake.properties.", TOKEN_VARIABLE, _trino),
}
