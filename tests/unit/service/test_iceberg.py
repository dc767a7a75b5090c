"""The rights on namespaces of Iceberg's catalog, and the outcome of a commit whose answer is lost."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import httpx
import pytest

from penstock.catalog.tables import OWNER
from penstock.engine.tokens import EVERY_INSTANCE, Caller, Scope
from penstock.errors import CatalogError, Forbidden, InvalidInput, LakeError, NotFound, PenstockError, QuotaExceeded
from penstock.service.iceberg import catalog as iceberg
from penstock.service.iceberg.catalog import Action, IcebergFront, Intent, NoSuchNamespace, Request, Rights, intent_of

OWNERS = {"sales": "team-a", "stock": "team-b"}


def caller(**grants: Scope) -> Caller:
    return Caller("1", "tester", {name.replace("_", "-"): scope for name, scope in grants.items()})


ADMINISTRATOR = Caller("0", "admin", {EVERY_INSTANCE: Scope.ADMINISTER})
TEAM_A = caller(team_a=Scope.SUBMIT)
READER_A = caller(team_a=Scope.READ)


def asked(method: str, path: str, body: object = None, **query: str) -> Request:
    return Request(method, tuple(path.split("/")), query, b"" if body is None else json.dumps(body).encode())


RENAME = {"source": {"namespace": ["Sales"], "name": "a"}, "destination": {"namespace": ["stock"], "name": "b"}}


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (asked("GET", "namespaces"), Intent(Action.LIST)),
        (asked("GET", "namespaces", parent="Sales"), Intent(Action.LIST, ("sales",))),
        (asked("POST", "namespaces", {"namespace": ["Sales"]}), Intent(Action.CREATE, ("sales",))),
        (asked("HEAD", "namespaces/SALES/tables/x"), Intent(Action.READ, ("sales",))),
        (asked("POST", "namespaces/sales/tables/x/metrics", {}), Intent(Action.READ, ("sales",))),
        (asked("POST", "namespaces/sales/tables/metrics", {}), Intent(Action.CHANGE, ("sales",))),
        (asked("POST", "namespaces/sales/views/x/metrics", {}), Intent(Action.CHANGE, ("sales",))),
        (asked("POST", "namespaces/sales/tables/x/metrics/y", {}), Intent(Action.CHANGE, ("sales",))),
        (asked("DELETE", "namespaces/sales/tables/x/metrics"), Intent(Action.CHANGE, ("sales",))),
        (asked("POST", "namespaces/sales/properties", {}), Intent(Action.CHANGE, ("sales",))),
        (asked("DELETE", "namespaces/sales"), Intent(Action.CHANGE, ("sales",))),
        (asked("POST", "tables/rename", RENAME), Intent(Action.CHANGE, ("sales", "stock"))),
        (asked("POST", "views/rename", RENAME), Intent(Action.CHANGE, ("sales", "stock"))),
    ],
)
def test_a_request_says_what_it_would_do_to_which_namespaces(request_: Request, expected: Intent) -> None:
    assert intent_of(request_) == expected


@pytest.mark.parametrize("name", [" sales", "sales ", "sa/les", "sales.orders", "sales\x1forders", "ſales", "\u212a"])
def test_a_name_that_the_metastore_could_take_for_another_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        intent_of(Request("GET", ("namespaces", name), {}, b""))
    with pytest.raises(InvalidInput):
        intent_of(asked("POST", "namespaces", {"namespace": [name]}))


@pytest.mark.parametrize("body", [None, [], {"namespace": "sales"}, {"namespace": ["a", "b"]}, {"namespace": [""]}, {}])
def test_a_body_without_a_namespace_of_one_level_is_refused(body: object) -> None:
    with pytest.raises(InvalidInput):
        intent_of(asked("POST", "namespaces", body))
    with pytest.raises(InvalidInput):
        intent_of(asked("POST", "tables/rename", {"source": body, "destination": {"namespace": ["sales"]}}))


@pytest.mark.parametrize("path", ["", "transactions/commit", "oauth/tokens", "tables", "tables/rename/more", "../v1"])
def test_what_lies_outside_of_the_protocol_is_not_passed_on(path: str) -> None:
    with pytest.raises(NotFound):
        intent_of(asked("POST", path, RENAME))


@pytest.mark.parametrize("part", ["", ".", ".."])
@pytest.mark.parametrize(
    "path",
    ["{}", "{}/namespaces", "namespaces/{}", "namespaces/sales/{}/stock/tables/gold", "namespaces/sales/tables/{}"],
)
def test_a_part_that_an_http_client_resolves_is_not_passed_on(path: str, part: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        with pytest.raises(NotFound):
            intent_of(asked(method, path.format(part), RENAME))


def require(who: Caller, request: Request, instance: str = "team-a") -> None:
    Rights(who, instance, OWNERS).require(intent_of(request))


def test_a_namespace_of_another_instance_is_as_one_that_does_not_exist() -> None:
    for request in (
        asked("GET", "namespaces/stock"),
        asked("GET", "namespaces/STOCK/tables/x"),
        asked("POST", "namespaces/stock/tables/x", {}),
        asked("DELETE", "namespaces/stock"),
        asked("POST", "tables/rename", RENAME),
    ):
        with pytest.raises(NoSuchNamespace):
            require(TEAM_A, request)
        require(ADMINISTRATOR, request)


def test_whoever_reads_an_instance_reads_its_namespaces_and_changes_none() -> None:
    require(READER_A, asked("GET", "namespaces/sales/tables/x"))
    for request in (
        asked("POST", "namespaces/sales/tables/x", {}),
        asked("POST", "namespaces", {"namespace": ["new"]}),
    ):
        with pytest.raises(Forbidden):
            require(READER_A, request)
        require(TEAM_A, request)


def test_a_namespace_is_created_in_an_instance_that_the_caller_may_submit_to() -> None:
    with pytest.raises(Forbidden):
        require(
            caller(team_a=Scope.SUBMIT, team_b=Scope.READ), asked("POST", "namespaces", {"namespace": ["x"]}), "team-b"
        )


def test_a_namespace_without_an_owner_is_everybodys_to_read_and_the_administrators_to_change() -> None:
    require(READER_A, asked("GET", "namespaces/tpcds"))
    with pytest.raises(Forbidden, match="belongs to no instance"):
        require(TEAM_A, asked("DELETE", "namespaces/tpcds"))
    require(caller(**{EVERY_INSTANCE: Scope.SUBMIT}), asked("DELETE", "namespaces/tpcds"))


class FakeCatalog:
    """A catalog that answers with `handler`, and counts its processes."""

    key = "secret"

    def __init__(self) -> None:
        self.processes = 1
        self.failing: set[int] = set()
        """The processes that end before they serve."""
        self.lives = False
        """Whether a process lives that broke a connection off."""

    def url(self, lost: str | None = None, *, refuses: bool = False) -> str:
        ended = lost is not None and (refuses or not self.lives)
        self.processes += ended or self.processes in self.failing
        if self.processes in self.failing:
            raise CatalogError("An Iceberg catalog ended")
        return f"http://127.0.0.1:{self.processes}"

    def close(self) -> None:
        self.processes = 0


class Vendor:
    """Issues credentials for every location but one, and records for what."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool, str]] = []
        self.works = True

    def configuration(self, location: str, *, writing: bool, user: str) -> dict[str, str] | None:
        self.asked.append((location, writing, user))
        if not self.works:
            raise LakeError("The store issues no credentials")
        return None if location.endswith("none") else {"s3.access-key-id": "AKTEMP"}


class Stage:
    def __init__(self, handler: Callable[[httpx.Request], httpx.Response]) -> None:
        self.sent: list[httpx.Request] = []
        self.catalog = FakeCatalog()

        def answered(request: httpx.Request) -> httpx.Response:
            self.sent.append(request)
            return handler(request)

        self.vendor = Vendor()
        self.front = IcebergFront(self.catalog, lambda: OWNERS, self.vendor, httpx.MockTransport(answered))

    def ask(self, request: Request, who: Caller = ADMINISTRATOR, instance: str = "team-a") -> tuple[int, Any]:
        answer = self.front.answer(who, instance, request)
        return answer.status, json.loads(answer.body) if answer.body else None


def ok(body: Mapping[str, Any] | None = None) -> Callable[[httpx.Request], httpx.Response]:
    return lambda _: httpx.Response(200, json=body) if body is not None else httpx.Response(204)


def answered(answers: Iterator[Exception | httpx.Response]) -> httpx.Response:
    found = next(answers)
    if isinstance(found, Exception):
        raise found
    return found


def test_a_request_is_passed_on_with_the_key_and_known_parameters_alone() -> None:
    stage = Stage(ok({"metadata": {}}))
    request = Request("GET", ("namespaces", "sales", "tables", "a/b ü"), {"snapshots": "refs", "evil": "1"}, b"")
    assert stage.ask(request) == (200, {"metadata": {}})
    (sent,) = stage.sent
    assert sent.headers["x-penstock-key"] == "secret"
    assert sent.url.raw_path == b"/v1/lake/namespaces/sales/tables/a%2Fb%20%C3%BC?snapshots=refs"


def table_at(location: str, *, delegable: bool = True) -> Callable[[httpx.Request], httpx.Response]:
    """A catalog with a table there, which says where asked whether credentials for its location will do."""

    def answer(request: httpx.Request) -> httpx.Response:
        config = {"penstock.delegable": "true"} if delegable and request.url.params.get("delegated") else {}
        return httpx.Response(200, json={"metadata": {"location": location}, "config": config})

    return answer


def delegated(method: str, path: str, body: object = None) -> Request:
    return replace(asked(method, path, body), delegated=True)


LOAD = delegated("GET", "namespaces/sales/tables/orders")


def test_a_client_that_asks_for_credentials_gets_those_for_the_table_and_no_more_than_its_rights() -> None:
    location = "s3a://lake/warehouse/sales.db/orders"
    stage = Stage(table_at(location))
    status, body = stage.ask(LOAD, TEAM_A)
    given = {"s3.access-key-id": "AKTEMP"}
    assert (status, body["config"]) == (200, given)
    assert body["storage-credentials"] == [{"prefix": location, "config": given}]
    stage.ask(LOAD, READER_A)
    stage.ask(delegated("GET", "namespaces/tpcds/tables/sales"), TEAM_A)
    stage.ask(delegated("POST", "namespaces/sales/tables", {"name": "orders"}), TEAM_A)
    assert [writing for _, writing, _ in stage.vendor.asked] == [True, False, False, True]
    assert {(at, user) for at, _, user in stage.vendor.asked} == {(location, "token-1")}


@pytest.mark.parametrize(
    ("request_", "location", "delegable"),
    [
        (asked("GET", "namespaces/sales/tables/orders"), "s3a://lake/warehouse/sales.db/orders", True),
        (LOAD, "s3a://lake/warehouse/stock.db/orders", False),
        (LOAD, "s3a://lake/none", True),
        (delegated("GET", "namespaces/sales/views/orders"), "s3a://lake/warehouse/sales.db/orders", True),
        (delegated("POST", "namespaces/sales/tables/orders", {}), "s3a://lake/warehouse/sales.db/orders", True),
    ],
    ids=["not asked for", "files of others", "no policy for it", "a view", "a commit"],
)
def test_there_are_no_credentials_where(request_: Request, location: str, delegable: bool) -> None:
    status, body = Stage(table_at(location, delegable=delegable)).ask(request_)
    assert (status, body["config"]) == (200, {})
    assert "storage-credentials" not in body


@pytest.mark.parametrize("request_", [delegated("POST", "namespaces/sales/tables", {"name": "orders"}), LOAD])
def test_a_table_is_answered_without_credentials_while_the_store_issues_none(
    request_: Request, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(table_at("s3a://lake/warehouse/sales.db/orders"))
    stage.vendor.works = False
    status, body = stage.ask(request_, TEAM_A)
    assert (status, body["config"]) == (200, {})
    assert "storage-credentials" not in body
    assert "The store issues no credentials" in caplog.text


def test_what_a_caller_may_not_do_never_reaches_the_catalog() -> None:
    stage = Stage(ok())
    with pytest.raises(PenstockError):
        stage.ask(asked("DELETE", "namespaces/stock"), TEAM_A)
    assert not stage.sent


@pytest.mark.parametrize(
    "request_",
    [
        asked("GET", "namespaces/sales/../stock/tables/gold"),
        asked("DELETE", "namespaces/sales/../stock/tables/gold", purgeRequested="true"),
        asked("POST", "namespaces/sales/../stock/properties", {"updates": {OWNER: "team-a"}}),
        asked("POST", "namespaces/sales/tables/../../stock/tables", {"name": "more"}),
        asked("POST", "namespaces/sales/./../stock/tables/gold", {"updates": []}),
    ],
)
def test_dots_in_a_path_do_not_lead_from_an_own_namespace_to_another_instances(request_: Request) -> None:
    stage = Stage(ok({}))
    with contextlib.suppress(NotFound):
        stage.ask(request_, TEAM_A)
    assert [(sent.method, sent.url.raw_path) for sent in stage.sent] == []


def test_whoever_only_reads_deletes_nothing_that_is_named_as_a_report_on_a_scan() -> None:
    stage = Stage(ok())
    for request in (
        asked("DELETE", "namespaces/sales/tables/x/metrics"),
        asked("POST", "namespaces/sales/views/x/metrics", {}),
    ):
        with pytest.raises(Forbidden):
            stage.ask(request, READER_A)
    assert not stage.sent


def test_a_namespaces_children_are_none_and_not_the_namespaces_of_all_instances() -> None:
    # The catalog lists everything: the front does not pass the parent on.
    stage = Stage(ok({"namespaces": [["sales"], ["stock"]]}))
    assert stage.ask(asked("GET", "namespaces", parent="Sales"), READER_A) == (200, {"namespaces": []})
    assert [sent.url.raw_path for sent in stage.sent] == [b"/v1/lake/namespaces/sales"]
    with pytest.raises(NoSuchNamespace):
        stage.ask(asked("GET", "namespaces", parent="Stock"), READER_A)
    assert len(stage.sent) == 1


def test_a_parent_that_does_not_exist_has_no_list_of_children() -> None:
    missing = {"error": {"code": 404, "type": "NoSuchNamespaceException", "message": "Namespace does not exist: x"}}
    stage = Stage(lambda _: httpx.Response(404, json=missing))
    assert stage.ask(asked("GET", "namespaces", parent="x"), READER_A) == (404, missing)


def test_a_list_has_the_namespaces_that_the_caller_sees() -> None:
    stage = Stage(ok({"namespaces": [["sales"], ["Stock"], ["tpcds"]]}))
    assert stage.ask(asked("GET", "namespaces"), READER_A) == (200, {"namespaces": [["sales"], ["tpcds"]]})
    assert stage.ask(asked("GET", "namespaces"))[1]["namespaces"] == [["sales"], ["Stock"], ["tpcds"]]


def test_a_new_namespace_belongs_to_the_instance_whatever_its_creator_says() -> None:
    stage = Stage(ok({}))
    stage.ask(asked("POST", "namespaces", {"namespace": ["new"], "properties": {OWNER: "team-b", "a": "b"}}), TEAM_A)
    assert json.loads(stage.sent[0].content)["properties"] == {OWNER: "team-a", "a": "b"}


@pytest.mark.parametrize("body", [{"updates": {OWNER: "team-b"}}, {"removals": [OWNER]}])
def test_an_owner_cannot_be_changed(body: object) -> None:
    stage = Stage(ok({}))
    with pytest.raises(Forbidden, match="cannot be changed"):
        stage.ask(asked("POST", "namespaces/sales/properties", body), TEAM_A)
    assert not stage.sent


def test_a_body_with_a_name_given_twice_reaches_the_catalog_as_it_was_judged() -> None:
    stage = Stage(ok())
    ends = '"source": {"namespace": ["stock"], "namespace": ["sales"]}, "destination": {"namespace": ["sales"]}'
    twice = f"{{{ends}}}".encode()
    stage.ask(Request("POST", ("tables", "rename"), {}, twice), TEAM_A)
    assert stage.sent[0].content.count(b"stock") == 0


def test_a_process_that_does_not_answer_is_replaced_and_asked_again() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.port == 1:
            raise httpx.ConnectError("refused")
        return httpx.Response(200, json={})

    stage = Stage(answer)
    assert stage.ask(asked("POST", "namespaces/sales/tables", {}))[0] == 200
    assert stage.catalog.processes == 2


LOOK = asked("GET", "namespaces/sales/tables/orders")
CREATE = asked("POST", "namespaces/sales/tables", {})
COMMIT = asked(
    "POST", "namespaces/sales/tables/orders", {"updates": [{"action": "add-snapshot", "snapshot": {"snapshot-id": 7}}]}
)


class Table:
    """A table behind a catalog whose answers to commits are lost: before or after a commit is made."""

    def __init__(self, *, lost_before: int = 0, lost_after: int = 0, other: bool = False) -> None:
        self.snapshots: list[int] = []
        self.lost_before, self.lost_after, self.other = lost_before, lost_after, other

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return self._loaded()
        if self.lost_before:
            self.lost_before -= 1
            raise httpx.ReadError("killed")
        if self.snapshots or self.other:
            return httpx.Response(409, json={"error": {"code": 409}})
        self.snapshots.append(7)
        if self.lost_after:
            self.lost_after -= 1
            raise httpx.RemoteProtocolError("killed")
        return self._loaded()

    def _loaded(self) -> httpx.Response:
        snapshots = [{"snapshot-id": one} for one in self.snapshots]
        return httpx.Response(200, json={"metadata-location": "x", "metadata": {"snapshots": snapshots}})


def test_a_commit_that_succeeded_before_the_catalog_was_killed_is_found() -> None:
    table = Table(lost_after=1)
    status, body = Stage(table).ask(COMMIT)
    assert (status, body["metadata"]["snapshots"]) == (200, [{"snapshot-id": 7}])
    assert table.snapshots == [7]


def test_a_commit_that_the_kill_prevented_is_made_once() -> None:
    table = Table(lost_before=1)
    assert Stage(table).ask(COMMIT)[0] == 200
    assert table.snapshots == [7]


@pytest.mark.parametrize("before", range(4))
def test_a_commit_that_was_lost_again_and_again_is_made_once_and_found(before: int) -> None:
    table = Table(lost_before=before, lost_after=1)
    assert Stage(table).ask(COMMIT)[0] == 200
    assert table.snapshots == [7]


def test_a_commit_that_no_process_answers_is_unknown() -> None:
    stage = Stage(Table(lost_before=5))
    assert stage.ask(COMMIT)[0] == 504
    assert stage.catalog.processes == 5


def test_a_commit_is_looked_up_also_where_the_next_process_does_not_start() -> None:
    stage = Stage(Table(lost_after=1))
    stage.catalog.failing = {2, 3}
    assert stage.ask(COMMIT)[0] == 200
    stage = Stage(Table(lost_after=1))
    stage.catalog.failing = set(range(2, 100))
    assert stage.ask(COMMIT)[0] == 504


def test_a_request_that_no_process_takes_was_not_made() -> None:
    def refuse(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(CatalogError, match="does not answer"):
        Stage(refuse).ask(COMMIT)


@pytest.mark.parametrize("failure", [httpx.ConnectTimeout("late"), httpx.PoolTimeout("full")])
@pytest.mark.parametrize("request_", [LOOK, CREATE, COMMIT])
def test_a_change_that_a_busy_process_did_not_take_was_not_made(failure: httpx.HTTPError, request_: Request) -> None:
    def late(_: httpx.Request) -> httpx.Response:
        raise failure

    stage = Stage(late)
    with pytest.raises(CatalogError, match="does not answer"):
        stage.ask(request_)
    assert stage.catalog.processes == 1


def test_a_process_that_took_no_connection_in_time_is_asked_again() -> None:
    answers: Iterator[Exception | httpx.Response] = iter([httpx.ConnectTimeout("late"), httpx.Response(200, json={})])
    stage = Stage(lambda _: answered(answers))
    assert stage.ask(CREATE)[0] == 200
    assert stage.catalog.processes == 1


def test_a_process_that_is_slow_to_answer_is_neither_replaced_nor_asked_again() -> None:
    def slow(_: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("slow")

    for request in (CREATE, COMMIT, asked("DELETE", "namespaces/sales/tables/orders", purgeRequested="true")):
        stage = Stage(slow)
        status, body = stage.ask(request)
        assert (status, body["error"]["type"]) == (504, "CommitStateUnknownException")
        assert (len(stage.sent), stage.catalog.processes) == (1, 1)
    stage = Stage(slow)
    with pytest.raises(CatalogError, match="does not answer"):
        stage.ask(LOOK)
    assert (len(stage.sent), stage.catalog.processes) == (1, 1)


def test_a_process_that_breaks_one_request_off_and_lives_is_not_replaced() -> None:
    stage = Stage(Table(lost_before=1))
    stage.catalog.lives = True
    assert stage.ask(COMMIT)[0] == 200
    assert stage.catalog.processes == 1


def test_a_lost_answer_to_a_request_that_only_reads_is_asked_for_again() -> None:
    answers: Iterator[Exception | httpx.Response] = iter([httpx.ReadError("killed"), httpx.Response(200, json={})])
    assert Stage(lambda _: answered(answers)).ask(LOOK)[0] == 200


def test_a_commit_that_lost_against_another_is_a_conflict_and_not_a_success() -> None:
    assert Stage(Table(lost_before=1, other=True)).ask(COMMIT)[0] == 409


def test_a_commit_that_its_client_sends_again_after_it_lost_the_answer_is_no_conflict() -> None:
    """DuckDB does so by itself, and would take its own commit for another's."""
    table = Table()
    stage = Stage(table)
    assert [stage.ask(COMMIT)[0] for _ in range(2)] == [200, 200]
    assert table.snapshots == [7]
    assert Stage(Table(other=True)).ask(COMMIT)[0] == 409


def test_a_change_without_snapshots_whose_answer_was_lost_is_unknown_and_not_repeated() -> None:
    def lost(_: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("killed")

    stage = Stage(lost)
    status, body = stage.ask(asked("POST", "namespaces/sales/tables/orders", {"updates": [{"action": "set-location"}]}))
    assert (status, body["error"]["type"]) == (504, "CommitStateUnknownException")
    assert len(stage.sent) == 1


@pytest.mark.parametrize("updates", [5, "add-snapshot", {"snapshot": {"snapshot-id": 7}}, [5, {"snapshot": 5}], None])
def test_a_commit_whose_updates_are_malformed_is_the_catalogs_to_refuse(updates: object) -> None:
    stage = Stage(lambda _: httpx.Response(400, json={"error": {"code": 400}}))
    assert stage.ask(asked("POST", "namespaces/sales/tables/orders", {"updates": updates}))[0] == 400


def test_errors_have_the_protocols_form() -> None:
    for error, status in (
        (NoSuchNamespace("x"), 404),
        (Forbidden("no"), 403),
        (InvalidInput("no"), 400),
        (CatalogError("An Iceberg catalog ended"), 503),
        (QuotaExceeded("too many"), 429),
    ):
        answer = iceberg.refusal(error)
        assert answer.status == status
        assert json.loads(answer.body)["error"]["code"] == status
