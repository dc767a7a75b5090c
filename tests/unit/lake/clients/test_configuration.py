"""Files with which other engines and libraries use a lake."""

from __future__ import annotations

import configparser
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from typer.testing import CliRunner

from penstock.cli.lake.lakes import app
from penstock.errors import InvalidInput
from penstock.home import Home
from penstock.lake.clients.configuration import PACKAGES, VENDED, Access, LakeClient, configuration
from penstock.lake.model import NO_CREDENTIALS, Credentials, HdfsClient, Lake, Sts
from penstock.lake.registry import Lakes
from penstock.runtime.jvm import penstock_jars

LAKE = Lake("sales", ("https://a.example:7480", "https://b.example:7480"), "data", "file:sales", region="north")
ACCESS = Access(LAKE, Path("/home/me/lake/credentials"), "https://spark.example:8440", "team-a")
WITH_CATALOG = [client for client in LakeClient if client not in {LakeClient.AWS, LakeClient.HIVE}]


def uncommented(text: str) -> str:
    """The text without the ends of XML's comments."""
    return text.replace(" -->\n", "\n")


@pytest.mark.parametrize("client", LakeClient)
def test_each_names_the_store_and_where_its_keys_are(client: LakeClient) -> None:
    text = uncommented(configuration(client, ACCESS))
    assert "a.example:7480" in text
    assert "north" in text
    assert "export AWS_SHARED_CREDENTIALS_FILE=/home/me/lake/credentials\n" in text
    assert "export AWS_PROFILE=sales\n" in text


@pytest.mark.parametrize("client", WITH_CATALOG)
def test_each_with_tables_names_the_catalog_the_instance_and_the_tokens_variable(client: LakeClient) -> None:
    text = configuration(client, ACCESS)
    assert "https://spark.example:8440/iceberg" in text
    assert "team-a" in text
    assert "TOKEN=…" in text


@pytest.mark.parametrize("client", WITH_CATALOG)
def test_without_an_instance_the_token_decides(client: LakeClient) -> None:
    text = configuration(client, replace(ACCESS, instance=None))
    assert "warehouse" not in text
    assert ("ATTACH ''" in text) == (client is LakeClient.DUCKDB)


@pytest.mark.parametrize("client", VENDED)
def test_a_client_whose_keys_come_from_the_catalog_needs_the_token_alone(client: LakeClient) -> None:
    text = configuration(client, replace(ACCESS, vended=True))
    assert "AWS_" not in text
    assert "SECRET" not in text
    assert "TOKEN=…" in text
    assert "vended" in text
    assert "vended" not in configuration(client, ACCESS)


@pytest.mark.parametrize("client", LakeClient)
def test_keys_of_the_users_own_files_or_of_the_environment_stay_where_they_are(client: LakeClient) -> None:
    profile = uncommented(configuration(client, replace(ACCESS, lake=replace(LAKE, credentials="aws:ceph"))))
    assert "export AWS_PROFILE=ceph\n" in profile
    assert "AWS_SHARED_CREDENTIALS_FILE" not in profile
    environment = configuration(client, replace(ACCESS, lake=replace(LAKE, credentials="environment")))
    assert "export AWS_ACCESS_KEY_ID=…" in environment
    assert "AWS_PROFILE" not in environment


@pytest.mark.parametrize("client", LakeClient)
def test_what_has_its_meaning_in_a_format_is_quoted_in_it(client: LakeClient) -> None:
    file = Path("/Meine Daten/it's")
    text = uncommented(configuration(client, replace(ACCESS, credentials_file=file, instance='it\'s "a": #b')))
    assert """export AWS_SHARED_CREDENTIALS_FILE='/Meine Daten/it'"'"'s'\n""" in text
    if client is LakeClient.PYICEBERG:
        assert yaml.safe_load(text)["catalog"]["lake"]["warehouse"] == 'it\'s "a": #b'
    if client is LakeClient.DUCKDB:
        assert """ATTACH 'it''s "a": #b' AS lake""" in text
    if client is LakeClient.SAIL:
        assert in_a_shell(text, "SAIL_CATALOG__LIST", PENSTOCK_TOKEN="t0ken") == (
            '[{type = "iceberg-rest", name = "lake", uri = "https://spark.example:8440/iceberg", '
            'warehouse = "it\'s \\"a\\": #b", oauth_access_token = "t0ken"}]'
        )


def in_a_shell(script: str, variable: str, **environment: str) -> str:
    """The variable's value after the script."""
    whole = ["/bin/sh", "-eu", "-c", f'{script}\nprintf %s "${variable}"']
    return subprocess.run(whole, env=environment, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("path", ["/keys--of---me", "/plain-path", "/a <b> & --"])
def test_in_xml_a_shell_still_reads_a_path_as_it_is(path: str) -> None:
    text = configuration(LakeClient.HIVE, replace(ACCESS, credentials_file=Path(path)))
    assert ElementTree.fromstring(text).tag == "configuration"  # noqa: S314  our own text
    exports = "\n".join(re.findall(r"<!--   (export .*) -->", text))
    assert in_a_shell(exports, "AWS_SHARED_CREDENTIALS_FILE") == path


def test_hives_clients_find_metastore_and_store() -> None:
    text = configuration(LakeClient.HIVE, replace(ACCESS, metastore="thrift://meta.example:9083"))
    properties = {one.findtext("name"): one.findtext("value") for one in ElementTree.fromstring(text)}  # noqa: S314
    assert properties["hive.metastore.uris"] == "thrift://meta.example:9083"
    assert properties["fs.s3a.endpoint"] == "https://a.example:7480"
    assert properties["fs.s3a.path.style.access"] == "true"
    assert "TOKEN" not in text


def test_an_authority_of_its_own_is_named() -> None:
    lake = replace(LAKE, ca_file="/etc/ca.pem")
    for client in LakeClient:
        assert "/etc/ca.pem" in configuration(client, replace(ACCESS, lake=lake))


@pytest.mark.parametrize(("profile", "section"), [("file:sales", "profile sales"), ("environment", "default")])
def test_awss_own_clients_read_their_file(profile: str, section: str) -> None:
    file = configparser.ConfigParser()
    file.read_string(configuration(LakeClient.AWS, replace(ACCESS, lake=replace(LAKE, credentials=profile))))
    assert file[section]["endpoint_url"] == "https://a.example:7480"
    assert file[section]["s3"].strip() == "addressing_style = path"


def test_plain_spark_gets_the_versions_of_the_applications() -> None:
    jars = {jar.name for jar in penstock_jars().glob("*.jar")}
    assert {"{1}-{2}.jar".format(*package.split(":")) for package in PACKAGES} <= jars


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    home = Home(tmp_path / "home")
    Lakes(home).add(LAKE, Credentials("AKID", "s3cret"))
    return home


@pytest.mark.parametrize("client", LakeClient)
def test_the_command_writes_a_file_without_a_secret(home: Home, tmp_path: Path, client: LakeClient) -> None:
    printed = CliRunner().invoke(app, ["export", "client", client.value])
    assert printed.exit_code == 0, printed.output
    assert str(home.root) in printed.output
    assert not any(secret in printed.output for secret in ("AKID", "s3cret"))
    file = tmp_path / "file"
    assert CliRunner().invoke(app, ["export", "client", client.value, "-o", str(file)]).output == f"{file}\n"
    assert file.read_text(encoding="utf-8") == printed.output


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--service", "spark.example"], "is not a URL"),
        (["--metastore", "http://spark.example"], "is not the address of a metastore"),
        (["--lake", "hadoop"], "is for lakes on S3"),
    ],
)
def test_what_has_no_file_is_refused(home: Home, arguments: list[str], problem: str) -> None:
    client = HdfsClient("127.0.0.1:9000", replication=1, short_circuit=False)
    Lakes(home).add(Lake("hadoop", ("http://127.0.0.1:9870",), "hadoop", NO_CREDENTIALS, hdfs=client))
    refused = CliRunner().invoke(app, ["export", "client", "spark", *arguments]).exception
    assert isinstance(refused, InvalidInput)
    assert problem in str(refused)


def test_a_file_without_keys_is_for_clients_that_were_tried_and_lakes_with_a_role(home: Home) -> None:
    for client, problem in (("trino", "no file for trino"), ("duckdb", "gives no temporary credentials")):
        refused = CliRunner().invoke(app, ["export", "client", client, "--vended"]).exception
        assert isinstance(refused, InvalidInput)
        assert problem in str(refused)
    sts = Sts("https://a.example:7480", "arn:aws:iam:::role/lake", 900)
    Lakes(home).add(replace(LAKE, name="with-role", sts=sts), Credentials("AKID", "s3cret"))
    printed = CliRunner().invoke(app, ["export", "client", "duckdb", "--vended", "--lake", "with-role"])
    assert "'vended_credentials'" in printed.output
