"""The lab's own gateways: valid options, and the kill of one."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest

from penstock.errors import InvalidInput
from penstock.lab.conditions import ThrottledGateways, require_http
from penstock.lab.workloads.throughput import Gateways
from penstock.lake.model import Lake

_PASSED = 200_000


@pytest.mark.parametrize(
    "wrong", [{"gateways": 0}, {"rate": 1000}, {"gateways": 1, "kill": True}, {"clients": 9, "files": 3}]
)
def test_what_could_never_be_measured_is_refused(wrong: dict[str, int]) -> None:
    Gateways().check_options()
    with pytest.raises(InvalidInput) as caught:
        replace(Gateways(), **wrong).check_options()
    assert caught.value.fix


def test_arms_with_more_and_fewer_gateways_do_the_same_work() -> None:
    assert replace(Gateways(), gateways=1).load == replace(Gateways(), gateways=4).load


def test_an_https_lake_is_refused_before_anything_starts() -> None:
    require_http(Lake("x", ("http://a:1",), "data", "file:x"))
    with pytest.raises(InvalidInput, match="https"):
        require_http(Lake("x", ("https://a:1",), "data", "file:x"))


def test_a_gateway_is_killed_once_enough_has_passed_and_not_before() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as victim:
        assert victim.stdin
        gateways = ThrottledGateways([], [victim])
        with gateways.killing_one(_PASSED) as killed:
            victim.stdin.write(bytes(_PASSED // 10))
            victim.stdin.flush()
            assert not killed.wait(0.3)
            victim.stdin.write(bytes(_PASSED))
            victim.stdin.flush()
            assert killed.wait(10)
        assert victim.wait() == -9
