"""Applications and instances as IBM's clients read them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from penstock.engine.policy.fairness import Instance, Quota, Use
from penstock.errors import InvalidInput
from penstock.lake.model import Lake
from penstock.model import Application, ApplicationSpec, Capacity, Reason, State
from penstock.service.dialects import instanceviews, kept, states, views
from tests.unit.service.dialects.dialect_bodies import SALES, application, details, recorded

AT = datetime(2026, 11, 21, 22, 30, 0, 123_456, tzinfo=timezone.utc)
IBM_STATES = {"accepted", "running", "finished", "failed", "stopped", "auto_terminated", "ops_terminated"}


def known(state: State, **changes: object) -> Application:
    spec = application(recorded("v4-volumes")).spec
    return replace(Application("app-1", spec, state, AT), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", State)
def test_every_state_has_one_of_ibms_words_and_the_word_finds_it_again(state: State) -> None:
    word = states.word(state)
    assert word in IBM_STATES
    assert state in states.asked([word])


def test_states_are_asked_for_with_commas_or_again_and_again() -> None:
    assert states.asked(["running,finished", "failed"]) == [
        State.RUNNING,
        State.STOPPING,
        State.FINISHED,
        State.FAILED,
    ]
    assert states.asked(["ops_terminated"]) == []
    with pytest.raises(InvalidInput, match="none"):
        states.asked(["runing"])


def test_a_failure_says_whose_matter_it_is() -> None:
    user = states.details(State.FAILED, Reason("driver_failed", "it raised an error", "mend it"))
    assert user == [{"type": "user_error", "code": "driver_failed", "message": "it raised an error; mend it"}]
    assert states.details(State.FAILED, Reason("driver_lost", "it is gone"))[0]["type"] == "server_error"
    assert states.details(State.WAITING, Reason("queue", "1 is ahead"))[0]["type"] == "info"
    assert states.details(State.RUNNING, None) == []


def test_what_is_unknown_is_left_out() -> None:
    assert views.state(known(State.ACCEPTED)) == {"id": "app-1", "state": "accepted"}


def test_times_are_utc_to_the_millisecond() -> None:
    ended = known(State.FINISHED, started_at=AT + timedelta(seconds=1), ended_at=AT + timedelta(seconds=2))
    assert views.state(ended) == {
        "id": "app-1",
        "state": "finished",
        "start_time": "2026-11-21T22:30:01.123Z",
        "end_time": "2026-11-21T22:30:02.123Z",
        "finish_time": "2026-11-21T22:30:02.123Z",
    }


def test_a_time_limit_is_known_from_the_start_of_the_cluster() -> None:
    limited = replace(known(State.RUNNING).spec, time_limit_seconds=60.0)
    running = known(State.RUNNING, spec=limited, admitted_at=AT, started_at=AT)
    assert views.state(running)["auto_termination_time"] == "2026-11-21T22:31:00.123Z"
    assert "auto_termination_time" not in views.state(replace(running, state=State.FINISHED))


def test_the_ui_is_named_while_it_is_to_be_had() -> None:
    def shown(application: Application) -> str | None:
        return views.whole(application, spark_version="4.1", spark_ui="http://h/ui/").get("spark_ui")

    states = (State.STARTING, State.RUNNING, State.FINISHED)
    assert [shown(known(state)) for state in states] == [None, "http://h/ui/", None]
    without = replace(known(State.RUNNING).spec, settings={"spark.ui.enabled": "false"})
    assert shown(known(State.RUNNING, spec=without)) is None


def test_what_runs_reads_as_a_body_that_would_run_it_again() -> None:
    spec = application(recorded("v4-volumes")).spec
    shown = views.details(spec, "4.1")
    again = application({"application_details": shown}).spec
    assert again == spec


def test_a_secret_among_old_records_is_not_shown() -> None:
    spec = application(details()).spec
    old = ApplicationSpec(**{**vars(spec), "settings": {"spark.hadoop.fs.s3a.secret.key": "hidden-value"}})
    assert "hidden-value" not in str(views.details(old, "4.1"))


def test_an_instance_keeps_what_clients_gave_it_beside_what_others_keep() -> None:
    instance = Instance("team", attributes={"console": {"colour": "blue"}})
    has = kept.Kept(
        {"spark.a": "b"}, kept.HomeStore("sales", "guid"), kept.LogForwarding(True, ("spark-driver",), ("t",))
    )
    again = kept.written(instance, has)
    assert kept.read(again) == has
    assert again.attributes["console"] == {"colour": "blue"}
    assert kept.read(Instance()) == kept.Kept()


def test_default_settings_hold_no_secret_and_null_takes_one_away() -> None:
    with pytest.raises(InvalidInput, match="secret"):
        kept.default_configs({"spark.hadoop.fs.cos.svc.secret.key": "abc"})
    assert kept.merged({"a": "1", "b": "2"}, {"a": None, "c": "3"}) == {"b": "2", "c": "3"}


def test_an_instance_never_shows_its_homes_keys() -> None:
    home = kept.HomeStore("sales", "guid")
    shown = instanceviews.home(home, SALES)
    assert (shown["endpoint"], shown["hmac_access_key"], shown["hmac_secret_key"]) == (
        SALES.endpoints[0],
        "****",
        "****",
    )


def test_a_home_in_a_lake_without_an_endpoint_is_shown() -> None:
    """The embedded lake has none before its first start."""
    lake = Lake("embedded", (), "penstock", "file:embedded", kind="embedded")
    assert instanceviews.home(kept.HomeStore("embedded", None), lake)["endpoint"] == ""


def test_consumption_and_limits_are_texts_as_clients_expect() -> None:
    assert instanceviews.consumption(Use(1, 0, 3, 4 << 30)) == {"cores": "3", "memory": "4G"}
    assert instanceviews.consumption(Use(1, 0, 3, (4 << 30) + 1)) == {"cores": "3", "memory": "4097M"}
    machine = Capacity(cores=4, memory_bytes=16 << 30)
    assert instanceviews.limits(Quota(), machine) == {"max_cores": "8", "max_memory": "16G"}
    assert instanceviews.limits(Quota(cores=2, memory_bytes=1 << 30), machine) == {"max_cores": "2", "max_memory": "1G"}
