"""Measure applications on Kubernetes: `python -m benchmarks.service.on_kubernetes HOME --cluster FILE --host ADDRESS`.

`--cluster` is a cluster file (`penstock cluster example`), `--host` an address of this machine that pods reach. Parts:

- `first`: from the start of `penstock run` to its first task, `--rounds` times after one that warms up the nodes;
- `queue`: `--applications` submissions to a service at once, under a ResourceQuota that has room for two: all end in
  the right state, none is lost or doubled, and no more than two have pods at any moment;
- `tpcds`: the 104 queries at `--scale`, on one executor of two cores, with every answer checked.

At the end the program lists the objects that were added to the namespace. The exit code is 1 where a claim does not
hold. tests/kubernetes/test_kubernetes_applications.py shows the cost of killed pods.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.service.first_task import PROGRAM, started, summary
from benchmarks.service.reporting import progress, report_result, spread
from benchmarks.service.served import Service, environment, token_of_its_own
from penstock import Client
from penstock.clusters.choice import VARIABLE
from penstock.clusters.kubernetes import layout, resources
from penstock.clusters.kubernetes.client import Api, find_access
from penstock.clusters.kubernetes.target import Target, read_target
from penstock.engine.engine import Engine
from penstock.home import Home
from penstock.lake.registry import Lakes
from penstock.model import ClusterSize, ProcessSize, State
from penstock.processes import wait_until
from tests.support.reachable_services import LAKE, lake_and_database

_SAYS = "import sys\nprint('number', sys.argv[1])\n"
_SIZE = ClusterSize(ProcessSize(1, 512 << 20), ProcessSize(1, 512 << 20), 1)
_QUOTA = "penstock-load"
_AT_ONCE = 2
_LOOK_SECONDS = 2.0
_CLEARED_SECONDS = 60.0
_PARTS = ("first", "queue", "tpcds")
_KINDS = (
    *(f"api/v1/{kind}" for kind in ("pods", "secrets", "configmaps", "services", "persistentvolumeclaims")),
    *(f"api/v1/{kind}" for kind in ("resourcequotas", "limitranges", "serviceaccounts", "replicationcontrollers")),
    *(f"apis/rbac.authorization.k8s.io/v1/{kind}" for kind in ("roles", "rolebindings")),
    *(f"apis/apps/v1/{kind}" for kind in ("deployments", "daemonsets", "replicasets", "statefulsets")),
    *(f"apis/batch/v1/{kind}" for kind in ("jobs", "cronjobs")),
)


def first(home: Home, rounds: int) -> dict[str, Any]:
    program = home.root / "first_task.py"
    program.write_text(PROGRAM)
    runs = []
    for turn in range(rounds + 1):
        found = started(Engine(home), program, server=None)
        progress(f"{turn} of {rounds}: first task after {found['first task']:.2f} s")
        if turn:
            runs.append(found)
    return summary(runs)


def queue(home: Home, api: Api, target: Target, count: int, patience: float) -> dict[str, Any]:
    program = home.root / "says.py"
    program.write_text(_SAYS)
    pods = f"/api/v1/namespaces/{target.namespace}/pods"
    most, began = 0, time.monotonic()
    with quota_of(api, target, _AT_ONCE), Service(home) as service:
        client = Client(service.url, token=token_of_its_own(home))
        others = {it.id for it in client.applications()}
        ids = [
            client.submit(
                program,
                arguments=[str(number)],
                driver_memory="512m",
                executor_memory="512m",
                executors=1,
                executor_cores=1,
                idempotency_key=f"kube-{began}-{number}",
            ).id
            for number in range(count)
        ]
        progress(f"{count} submitted in {time.monotonic() - began:.1f} s")
        waiting = set(ids)
        while waiting and time.monotonic() - began < patience:
            selector = f"{layout.ROLE_LABEL}={layout.DRIVER}"
            most = max(most, len(api.get(pods, labelSelector=selector).get("items") or []))
            waiting &= {it.id for it in client.applications(states=[it for it in State if not it.final])}
            progress(f"{count - len(waiting)} of {count} ended")
            time.sleep(_LOOK_SECONDS)
        took = time.monotonic() - began
        ended = {one: client.application(one) for one in ids}
        more = {it.id for it in client.applications()} - others - set(ids)
        wrong = [
            f"{one} said {said!r}"
            for number, one in enumerate(ids)
            if ended[one].state.value == "finished"
            and (said := client.log(one, "driver.out")) != f"number {number}\n".encode()
        ]
    waited = [(it.admitted_at - it.submitted_at).total_seconds() for it in ended.values() if it.admitted_at is not None]
    states = Counter(it.state.value for it in ended.values())
    unlike = [f"{number} applications are {state}" for state, number in states.items() if state != "finished"]
    doubled = [f"{count} were submitted, {len(set(ids))} have an id, {len(more)} more are recorded"]
    if len(set(ids)) == count and not more:
        doubled = []
    beyond = [f"{most} had a driver pod at once"] if most > _AT_ONCE else []
    return {
        "applications": count,
        "seconds": round(took, 1),
        "states": dict(states),
        "attempts": max(it.attempt for it in ended.values()),
        "most driver pods at once": most,
        "waited for room, seconds": spread(waited) if waited else {},
        "broken": [*doubled, *wrong, *unlike, *beyond],
    }


def tpcds(home: Home, scale: float) -> dict[str, Any]:
    size = ("--executors", "1", "--executor-cores", "2", "--executor-memory", "2g", "--driver-memory", "1500m")
    command = [sys.executable, "-m", "penstock.cli.main", "lab", "tpcds", "--scale", str(scale), *size]
    began = time.monotonic()
    ran = subprocess.run(command, env=environment(home), stdout=sys.stderr, check=False)
    verdict = {0: "every answer is right", 9: "an answer differs"}.get(ran.returncode, "a query failed")
    return {
        "scale": scale,
        "seconds, data and checks included": round(time.monotonic() - began, 1),
        "answers": verdict,
        "broken": [f"TPC-DS: {verdict}"] if ran.returncode else [],
    }


@contextlib.contextmanager
def quota_of(api: Api, target: Target, applications: int) -> Iterator[None]:
    """Set a ResourceQuota with room for `applications`, each of one driver and one executor."""
    each = sum(pod(_SIZE, target).requests["memory"] for pod in (resources.driver_demand, resources.executor_demand))
    path = f"/api/v1/namespaces/{target.namespace}/resourcequotas"
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": _QUOTA},
        "spec": {"hard": {"requests.memory": str(round(applications * each))}},
    }
    # A killed run may have left its quota.
    api.delete(f"{path}/{_QUOTA}")
    api.create(path, body)
    try:
        yield
    finally:
        api.delete(f"{path}/{_QUOTA}")


def objects(api: Api, target: Target) -> set[str]:
    """Objects of the namespace, of the kinds that users and applications create."""
    found = set()
    for kind in _KINDS:
        group, _, plural = kind.rpartition("/")
        items = api.get(f"/{group}/namespaces/{target.namespace}/{plural}").get("items") or []
        found |= {f"{plural}/{item['metadata']['name']}" for item in items}
    return found


def left(api: Api, target: Target, before: set[str]) -> list[str]:
    """Objects that are not in `before`, once Kubernetes has had time to collect the dependents of pods."""
    wait_until(lambda: objects(api, target) <= before, _CLEARED_SECONDS, pause_seconds=1.0)
    return sorted(objects(api, target) - before)


def run(home: Home, given: argparse.Namespace) -> Mapping[str, Any]:
    target = read_target(given.cluster)
    api = Api(find_access(target.kubeconfig, target.context))
    result: dict[str, Any] = {
        "kubernetes": api.get("/version").get("gitVersion"),
        "nodes": len(api.get("/api/v1/nodes")["items"]),
    }
    home.create()
    before = objects(api, target)
    with lake_and_database(home, given.host) as database:
        os.environ.update({**database, VARIABLE: str(given.cluster)})
        Lakes(home).set_default(LAKE)
        if "first" in given.parts:
            result["from the command to the first task"] = first(home, given.rounds)
        if "queue" in given.parts:
            result["queue"] = queue(home, api, target, given.applications, given.patience)
        if "tpcds" in given.parts:
            result["tpcds"] = tpcds(home, given.scale)
    result["left in the namespace"] = left(api, target, before)
    broken = [it for part in ("queue", "tpcds") for it in result.get(part, {}).pop("broken", [])]
    broken += [f"{it} is left" for it in result["left in the namespace"]]
    return {**result, "broken": broken}


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("home", type=Path)
    options.add_argument("--cluster", type=Path, required=True)
    options.add_argument("--host", required=True)
    options.add_argument("--parts", nargs="+", choices=_PARTS, default=_PARTS)
    options.add_argument("--scale", type=float, default=0.1)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--applications", type=int, default=100)
    options.add_argument("--patience", type=float, default=1800.0, help="seconds until the queue has to be empty")
    asked = options.parse_args()
    asked.cluster = asked.cluster.absolute()
    place = Home(asked.home.absolute())
    raise SystemExit(report_result(place, "on_kubernetes", run(place, asked)))
