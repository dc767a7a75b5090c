"""Responses about applications and instances in IBM's form."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import BaseModel

from penstock.engine.policy.scheduling import Instance, InstanceUsage, Quota
from penstock.errors import InvalidInput
from penstock.lake.model import Lake
from penstock.model import Application, ApplicationSpec, Capacity, Reason, State
from penstock.service.ibm import configuration, responses, translation
from tests.unit.service.ibm.dialect_bodies import SALES, application, details, recorded

AT = datetime(2026, 11, 21, 22, 30, 0, 123_456, tzinfo=timezone.utc)
IBM_STATES = {"accepted", "running", "finished", "failed", "stopped", "auto_terminated", "ops_terminated"}


def known(state: State, **changes: object) -> Application:
    spec = application(recorded("v4-volumes")).spec
    return replace(Application("app-1", spec, state, AT), **changes)  # type: ignore[arg-type]


def shown(response: BaseModel) -> dict[str, Any]:
    """Serialise the response as `DialectRoute` does."""
    return response.model_dump(mode="json", by_alias=True, exclude_unset=True)


@pytest.mark.parametrize("state", State)
def test_every_state_has_one_of_ibms_words_and_the_word_finds_it_again(state: State) -> None:
    word = translation.ibm_state(state)
    assert word in IBM_STATES
    assert state in translation.parse_states([word])


def test_states_are_asked_for_with_commas_or_again_and_again() -> None:
    assert translation.parse_states(["running,finished", "failed"]) == [
        State.RUNNING,
        State.STOPPING,
        State.FINISHED,
        State.FAILED,
    ]
    assert translation.parse_states(["ops_terminated"]) == []
    with pytest.raises(InvalidInput, match="unknown"):
        translation.parse_states(["runing"])


def test_a_failure_says_whose_matter_it_is() -> None:
    user = translation.state_details(State.FAILED, Reason("driver_failed", "it raised an error", "mend it"))
    assert user == [{"type": "user_error", "code": "driver_failed", "message": "it raised an error; mend it"}]
    assert translation.state_details(State.FAILED, Reason("driver_lost", "it is gone"))[0]["type"] == "server_error"
    assert translation.state_details(State.WAITING, Reason("queue", "1 is ahead"))[0]["type"] == "info"
    assert translation.state_details(State.RUNNING, None) == []


def test_what_is_unknown_is_left_out() -> None:
    assert shown(responses.application_state(known(State.ACCEPTED))) == {"id": "app-1", "state": "accepted"}


def test_times_are_utc_to_the_millisecond() -> None:
    ended = known(State.FINISHED, started_at=AT + timedelta(seconds=1), ended_at=AT + timedelta(seconds=2))
    assert shown(responses.application_state(ended)) == {
        "id": "app-1",
        "state": "finished",
        "start_time": "2026-11-21T22:30:01.123Z",
        "end_time": "2026-11-21T22:30:02.123Z",
        "finish_time": "2026-11-21T22:30:02.123Z",
    }


def test_a_time_limit_is_known_from_the_start_of_the_cluster() -> None:
    limited = replace(known(State.RUNNING).spec, time_limit_seconds=60.0)
    running = known(State.RUNNING, spec=limited, admitted_at=AT, started_at=AT)
    assert shown(responses.application_state(running))["auto_termination_time"] == "2026-11-21T22:31:00.123Z"
    assert "auto_termination_time" not in shown(responses.application_state(replace(running, state=State.FINISHED)))


def test_the_ui_is_named_while_it_is_to_be_had() -> None:
    def ui(application: Application) -> str | None:
        whole = responses.application_response(application, spark_version="4.1", spark_ui="http://h/ui/")
        return shown(whole).get("spark_ui")

    states = (State.STARTING, State.RUNNING, State.FINISHED)
    assert [ui(known(state)) for state in states] == [None, "http://h/ui/", None]
    without = replace(known(State.RUNNING).spec, settings={"spark.ui.enabled": "false"})
    assert ui(known(State.RUNNING, spec=without)) is None


def test_what_runs_reads_as_a_body_that_would_run_it_again() -> None:
    spec = application(recorded("v4-volumes")).spec
    again = application({"application_details": shown(responses.details_response(spec, "4.1"))}).spec
    assert again == spec


def test_a_secret_among_old_records_is_not_shown() -> None:
    spec = application(details()).spec
    old = ApplicationSpec(**{**vars(spec), "settings": {"spark.hadoop.fs.s3a.secret.key": "hidden-value"}})
    assert "hidden-value" not in str(shown(responses.details_response(old, "4.1")))


def test_an_instance_keeps_what_clients_gave_it_beside_what_others_keep() -> None:
    instance = Instance("team", attributes={"console": {"colour": "blue"}})
    has = configuration.InstanceConfiguration(
        {"spark.a": "b"},
        configuration.HomeStore("sales", "guid"),
        configuration.LogForwarding(True, ("spark-driver",), ("t",)),
    )
    again = configuration.with_configuration(instance, has)
    assert configuration.read(again) == has
    assert again.attributes["console"] == {"colour": "blue"}
    assert configuration.read(Instance()) == configuration.InstanceConfiguration()


def test_default_settings_hold_no_secret_and_null_takes_one_away() -> None:
    with pytest.raises(InvalidInput, match="secret"):
        configuration.checked_settings({"spark.hadoop.fs.cos.svc.secret.key": "abc"})
    assert configuration.merged_configuration({"a": "1", "b": "2"}, {"a": None, "c": "3"}) == {"b": "2", "c": "3"}


def test_an_instance_never_shows_its_homes_keys() -> None:
    home = responses.home_response(configuration.HomeStore("sales", "guid"), SALES)
    assert (home.endpoint, home.hmac_access_key, home.hmac_secret_key) == (
        SALES.endpoints[0],
        "****",
        "****",
    )


def test_a_home_in_a_lake_without_an_endpoint_is_shown() -> None:
    """The embedded lake has no endpoint before its first start."""
    lake = Lake("embedded", (), "penstock", "file:embedded", kind="embedded")
    assert responses.home_response(configuration.HomeStore("embedded", None), lake).endpoint == ""


def test_consumption_and_limits_are_texts_as_clients_expect() -> None:
    assert shown(responses.consumption(InstanceUsage(1, 0, 3, 4 << 30))) == {"cores": "3", "memory": "4G"}
    assert shown(responses.consumption(InstanceUsage(1, 0, 3, (4 << 30) + 1))) == {"cores": "3", "memory": "4097M"}
    machine = Capacity(cores=4, memory_bytes=16 << 30)
    assert shown(responses.limits(Quota(), machine)) == {"max_cores": "8", "max_memory": "16G"}
    quota = Quota(cores=2, memory_bytes=1 << 30)
    assert shown(responses.limits(quota, machine)) == {"max_cores": "2", "max_memory": "1G"}
