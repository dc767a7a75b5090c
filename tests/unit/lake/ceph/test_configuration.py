"""Ceph's configuration and keys are complete, private, and name no address but this machine's."""

from __future__ import annotations

import base64
import configparser
import struct
from pathlib import Path

import pytest

from penstock.lake.ceph import configuration
from penstock.lake.ceph.configuration import INITIAL_KEYRING, Ports, capabilities, ceph_conf, keyrings

PORTS = Ports(3300, (8001, 8002))
ENTITIES = [configuration.entity(name) for name in configuration.daemon_names(osds=2, gateways=2)]


@pytest.fixture
def parsed() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.read_string(ceph_conf(fsid="f", ports=PORTS, sts_key="0123456789abcdef"))
    return parser


def test_every_address_is_the_loopback_one(parsed: configparser.ConfigParser) -> None:
    general = parsed["global"]
    assert general["mon_host"] == "[v2:127.0.0.1:3300]"
    assert general["public_addr"] == general["cluster_addr"] == "127.0.0.1"
    for number, port in enumerate(PORTS.gateways):
        assert parsed[f"client.rgw.{number}"]["rgw_frontends"] == f"beast endpoint=127.0.0.1:{port}"
    assert PORTS.endpoints() == ("http://127.0.0.1:8001", "http://127.0.0.1:8002")


def test_every_path_is_relative_so_that_any_home_is_short_enough_for_a_socket(
    parsed: configparser.ConfigParser,
) -> None:
    paths = [
        value
        for section in parsed.values()
        for name, value in section.items()
        if name.endswith(("_data", "_dir", "_file", "_socket")) or name == "keyring"
    ]
    assert len(paths) > 8
    assert not any(path.startswith("/") for path in paths)


def test_clients_need_a_key(parsed: configparser.ConfigParser) -> None:
    for part in ("cluster", "service", "client"):
        assert parsed["global"][f"auth_{part}_required"] == "cephx"


def test_each_daemon_has_a_key_file_of_its_own_and_the_monitor_begins_with_all_of_them() -> None:
    files = keyrings(ENTITIES)
    initial = files.pop(INITIAL_KEYRING)
    assert set(files) == {f"keys/{owner}.keyring" for owner in (*ENTITIES, "client.admin") if owner != "mon.a"}
    for content in files.values():
        assert content in initial
    assert initial.startswith("[mon.]")
    keys = [line.split("= ")[1] for line in initial.splitlines() if "key = " in line]
    assert len(set(keys)) == len(keys)
    for key in keys:
        kind, _, _, length = struct.unpack("<hiih", base64.b64decode(key)[:12])
        assert (kind, length) == (1, 16)


def test_a_daemon_may_do_no_more_than_its_kind_needs() -> None:
    allowed = capabilities(ENTITIES)
    assert [owner for owner, caps in allowed.items() if caps.get("mon") == "allow *"] == ["mon.", "client.admin"]
    assert allowed["client.rgw.1"] == {"mon": "allow rw", "mgr": "allow rw", "osd": "allow rwx"}
    assert allowed["osd.1"]["mon"] == "allow profile osd"


def test_the_smallest_memory_target_is_the_least_that_ceph_accepts(parsed: configparser.ConfigParser) -> None:
    assert int(parsed["osd"]["osd_memory_target"]) == 896 << 20


def test_the_key_of_short_lived_credentials_has_what_aes_128_needs(parsed: configparser.ConfigParser) -> None:
    assert len(parsed["client"]["rgw_sts_key"]) == 16


def test_the_client_script_is_beside_the_module_that_runs_it() -> None:
    from penstock.lake.ceph import daemons

    assert Path(daemons.__file__).with_name("monitor_client.py").is_file()
