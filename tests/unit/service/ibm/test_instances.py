"""An instance's stored configuration over HTTP (defaults, home, log forwarding), and its use and limits."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from penstock.engine.interactive.history import HistoryStatus
from penstock.engine.tokens import Scope
from penstock.lake.model import Lake
from penstock.lake.registry import Lakes
from penstock.service.ibm import instances, stores
from tests.unit.service.ibm.dialect_bodies import details
from tests.unit.service.ibm.dialect_world import AT, KEYS, World

V3 = "/v3/analytics_engines/team"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_an_instance_is_active_and_knows_its_runtime(world: World) -> None:
    shown = world.named("reader").get(V3).json()
    assert (shown["id"], shown["state"], shown["default_config"]) == ("team", "active", {})
    assert shown["default_runtime"]["spark_version"].startswith("4.")
    assert shown["href"].endswith(V3)
    assert world.named("reader").get(f"{V3}/state").json() == {"id": "team", "state": "active"}


def test_default_settings_reach_what_is_submitted_after_them(world: World) -> None:
    administrator = world.named("administrator")
    put = administrator.put(f"{V3}/default_configs", json={"spark.driver.memory": "3G", "spark.a.b": "c"})
    assert put.json() == {"spark.driver.memory": "3G", "spark.a.b": "c"}
    patched = administrator.patch(
        f"{V3}/default_configs",
        content=b'{"spark.a.b": null, "ae.spark.executor.count": 4}',
        headers={"Content-Type": "application/merge-patch+json"},
    )
    assert patched.json() == {"spark.driver.memory": "3G", "ae.spark.executor.count": "4"}
    assert administrator.get(f"{V3}/default_configs").json() == patched.json()
    world.named().post(f"{V3}/spark_applications", json=details())
    size = world.records.submitted["app-1"].spec.size
    assert (size.driver.memory_bytes, size.executors) == (3 << 30, 4)


def test_a_secret_is_no_default_setting(world: World) -> None:
    given = world.named("administrator").put(
        f"{V3}/default_configs", json={"spark.hadoop.fs.cos.svc.secret.key": "hidden-value"}
    )
    assert given.status_code == 400
    assert "hidden-value" not in given.text
    assert world.named("administrator").get(f"{V3}/default_configs").json() == {}


def test_any_runtime_may_be_asked_for_and_the_answer_says_which_there_is(world: World) -> None:
    client = world.named("administrator")
    asked = client.put(f"{V3}/default_runtime", json={"spark_version": "3.4"})
    assert (asked.status_code, asked.json()) == (200, client.get(f"{V3}/default_runtime").json())
    assert asked.json()["spark_version"].startswith("4.")


def test_a_registered_store_becomes_the_home_by_its_keys_which_are_not_shown(world: World) -> None:
    Lakes(world.home).add(Lake("archive", ("http://127.0.0.1:10",), "archive", "file:archive"), KEYS)
    client = world.named("administrator")
    body = {
        "instance_id": "guid",
        "endpoint": "http://127.0.0.1:10",
        "hmac_access_key": KEYS.access_key,
        "hmac_secret_key": KEYS.secret_key,
    }
    given = client.put(f"{V3}/instance_home", json=body)
    assert (given.status_code, given.json()["instance_id"], given.json()["hmac_secret_key"]) == (200, "guid", "****")
    shown = client.get(V3)
    assert (shown.json()["instance_home"]["bucket"], shown.json()["instance_home"]["id"]) == ("archive", "guid")
    assert KEYS.secret_key not in shown.text + given.text + str(world.records.known)
    world.named().post(f"{V3}/spark_applications", json=details())
    assert world.records.submitted["app-1"].spec.lake == "archive"


def test_a_home_does_not_move_to_another_store(world: World) -> None:
    Lakes(world.home).add(Lake("archive", ("http://127.0.0.1:10",), "archive", "file:archive"), KEYS)
    client = world.named("administrator")
    assert client.put(f"{V3}/instance_home", json={"endpoint": "127.0.0.1:10"}).status_code == 200
    assert client.put(f"{V3}/instance_home", json={"endpoint": "127.0.0.1:10"}).status_code == 200
    assert client.put(f"{V3}/instance_home", json={"endpoint": "127.0.0.1:9"}).status_code == 409


def test_a_store_nobody_registered_is_no_home(world: World) -> None:
    given = world.named("administrator").put(f"{V3}/instance_home", json={"endpoint": "http://169.254.169.254"})
    assert given.status_code == 400
    assert "penstock lake add" in given.json()["fix"]


def test_keys_of_a_home_that_is_not_there_are_refused(world: World) -> None:
    body = {"hmac_access_key": "A", "hmac_secret_key": "hidden-value"}
    given = world.named("administrator").patch(f"{V3}/instance_home", json=body)
    assert given.status_code == 409
    assert "hidden-value" not in given.text


def test_consumption_and_limits_are_texts(world: World) -> None:
    client = world.named("reader")
    assert client.get(f"{V3}/current_resource_consumption").json() == {"cores": "2", "memory": "0G"}
    assert client.get(f"{V3}/resource_consumption_limits").json() == {"max_cores": "8", "max_memory": "8G"}


def test_log_forwarding_is_kept_in_both_of_its_forms(world: World) -> None:
    client = world.named("administrator")
    logs = {"enabled": True, "sources": ["spark-driver", "spark-executor"], "tags": ["nightly"]}
    kept = {**logs, "log_server": {"type": "lake"}}
    assert client.put(f"{V3}/log_forwarding_config", json=logs).json() == kept
    assert client.get(f"{V3}/log_forwarding_config").json() == kept
    older = client.put(f"{V3}/logging", json={"enable": False})
    assert (older.status_code, older.json()["enable"]) == (201, False)
    assert client.get(f"{V3}/log_forwarding_config").json() == {**kept, "enabled": False}


def test_who_may_submit_may_not_change_what_the_instance_keeps(world: World) -> None:
    client = world.named("submitter")
    for path, body in (
        ("default_configs", {}),
        ("default_runtime", {}),
        ("instance_home", {}),
        ("log_forwarding_config", {}),
        ("logging", {}),
    ):
        assert client.put(f"{V3}/{path}", json=body).status_code == 403


class FakeHistory:
    """A history server that runs after `start` until `stop`."""

    running: ClassVar[dict[str | None, bool]] = {}
    """By the name of the lake; None is the default one."""

    def __init__(self, _: object) -> None:
        pass

    def status(self, lake: str | None = None) -> HistoryStatus:
        running = self.running.get(lake, False)
        return HistoryStatus(lake or "default", running, started_at=AT, idle_ends_at=AT if running else None)

    def start(self, lake: str | None = None) -> HistoryStatus:
        self.running[lake] = True
        return self.status(lake)

    def stop(self, lake: str | None = None) -> HistoryStatus:
        self.running[lake] = False
        return self.status(lake)


def test_starting_and_stopping_the_history_server_is_idempotent(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "HistoryServers", FakeHistory)
    client, path = world.named("administrator"), f"{V3}/spark_history_server"
    for _ in range(2):
        started = client.post(path)
        assert (started.status_code, started.json()["state"]) == (202, "started")
    assert {"cores", "memory", "start_time", "auto_termination_time"} <= client.get(path).json().keys()
    for _ in range(2):
        assert client.delete(path).status_code == 204
    assert client.get(path).json()["state"] == "stopped"
    assert world.named("reader").post(path).status_code == 403


def test_an_instance_does_not_stop_the_history_server_that_all_share(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "HistoryServers", FakeHistory)
    path = f"{V3}/spark_history_server"
    assert world.named().post(path).json()["state"] == "started"
    assert world.named().delete(path).status_code == 204
    assert world.named("reader").get(path).json()["state"] == "started"
    assert world.client(Scope.SUBMIT).delete(path).status_code == 204
    assert world.named("reader").get(path).json()["state"] == "stopped"


def test_an_instance_stops_the_history_server_of_a_lake_of_its_own_keys(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "HistoryServers", FakeHistory)
    monkeypatch.setattr(stores, "require_reachable", lambda *_: None)
    keys = {"hmac_access_key": "OTHER", "hmac_secret_key": "other-secret"}
    assert world.named("administrator").put(f"{V3}/instance_home", json=keys).status_code == 200
    path = f"{V3}/spark_history_server"
    assert world.named().post(path).json()["state"] == "started"
    assert world.named().delete(path).status_code == 204
    assert world.named().get(path).json()["state"] == "stopped"
