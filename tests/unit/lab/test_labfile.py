"""A lab file defines experiments; an invalid one is refused with the line, the key and a suggestion."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from penstock import formats
from penstock.errors import InvalidInput
from penstock.lab import labfile
from penstock.lab.experiment import Experiment
from penstock.lab.workloads.base import Suite
from tests.unit.lab.lab_world import SIZE, Noted


class Letters:
    """One workload, with the options of `Noted` and a rule over two of them."""

    def names(self) -> Sequence[str]:
        return ("noted", "terasort")

    def options(self, workload: str) -> Sequence[str]:
        return ("letter", "bytes_needed")

    def suite(self, workload: str, options: Mapping[str, Any]) -> Suite:
        if options.get("letter") == "z" and "bytes_needed" in options:
            raise InvalidInput("the last letter needs no bytes")
        return Noted(**options)


def read(text: str) -> list[Experiment]:
    return labfile.parse_experiments(formats.parse(text, "lab.yaml"), Letters(), lambda _: SIZE)


def refused(text: str) -> InvalidInput:
    with pytest.raises(InvalidInput) as raised:
        read(text)
    return raised.value


def test_the_shortest_file_measures_a_workload_once() -> None:
    (experiment,) = read("workload: noted")
    (arm,) = experiment.arms
    assert (arm.name, arm.suite, arm.size, arm.launcher) == ("Penstock", Noted(), SIZE, "penstock")
    assert (experiment.plan.repetitions, experiment.plan.warmup, experiment.plan.caches) == (1, 0, "keep")


def test_every_combination_of_what_varies_is_an_arm_named_by_it() -> None:
    (experiment,) = read("""
workload: noted
options: {letter: b}
vary:
  launcher: [plain, penstock]
  executor_cores: [1, 4]
  spark.sql.shuffle.partitions: [8]
""")
    assert [arm.name for arm in experiment.arms] == [
        "plain Spark, executor cores 1, spark.sql.shuffle.partitions 8",
        "plain Spark, executor cores 4, spark.sql.shuffle.partitions 8",
        "Penstock, executor cores 1, spark.sql.shuffle.partitions 8",
        "Penstock, executor cores 4, spark.sql.shuffle.partitions 8",
    ]
    last = experiment.arms[-1]
    assert (last.launcher, last.size.executor.cores, last.suite) == ("penstock", 4, Noted("b"))
    assert last.settings == {"spark.sql.shuffle.partitions": "8"}


def test_arms_one_by_one_differ_only_in_what_they_say() -> None:
    (experiment,) = read("""
workload: noted
lake: far
executors: 3
settings: {spark.a: 1, spark.b: true}
arms:
  - launcher: plain
  - name: wide
    options: {letter: c}
    executor_memory: 4g
    settings: {spark.b: false}
""")
    plain, wide = experiment.arms
    assert (plain.name, plain.launcher, plain.suite) == ("plain Spark", "plain", Noted("a"))
    assert plain.settings == {"spark.a": "1", "spark.b": "true"}
    assert (wide.name, wide.launcher, wide.suite, wide.lake) == ("wide", "penstock", Noted("c"), "far")
    assert (wide.size.executors, wide.size.executor.memory_bytes) == (3, 4 << 30)
    assert wide.settings == {"spark.a": "1", "spark.b": "false"}


def test_arms_can_be_lakes_and_how_many_of_their_gateways_are_used() -> None:
    (experiment,) = read("workload: noted\nvary: {lake: [near, far], gateways: [1, 2]}")
    assert [(arm.name, arm.lake, arm.gateways) for arm in experiment.arms] == [
        ("near, gateways 1", "near", 1),
        ("near, gateways 2", "near", 2),
        ("far, gateways 1", "far", 1),
        ("far, gateways 2", "far", 2),
    ]


def test_experiments_can_share_their_arms_or_have_their_own() -> None:
    shared, own, varied = read("""
arms: [{lake: near}, {lake: far, options: {letter: c}}]
experiments:
  - workload: noted
    options: {letter: b}
  - workload: noted
    arms: [{lake: other}]
  - workload: noted
    vary: {lake: [third]}
""")
    assert [(arm.name, arm.lake, arm.suite) for arm in shared.arms] == [
        ("near", "near", Noted("b")),
        ("far, letter c", "far", Noted("c")),
    ]
    assert [arm.lake for arm in (*own.arms, *varied.arms)] == ["other", "third"]


def test_a_variant_alone_is_one_of_each_workloads_own_profile() -> None:
    (experiment,) = read("workload: noted\nvary: {profile: [+s3a-tuned, sql+s3a-tuned]}")
    assert [arm.profile for arm in experiment.arms] == ["default+s3a-tuned", "sql+s3a-tuned"]


def test_what_an_arm_shuffles_on_is_a_setting_of_its_applications() -> None:
    (experiment,) = read("workload: noted\nvary: {scratch: [/mnt/nvme, krbd]}")
    assert [(arm.name, arm.settings) for arm in experiment.arms] == [
        ("scratch /mnt/nvme", {"spark.penstock.scratch.disk": "/mnt/nvme"}),
        ("scratch krbd", {"spark.penstock.scratch.disk": "krbd"}),
    ]


def test_what_is_not_to_be_compared_is_measured_as_experiments_of_its_own() -> None:
    found = read("workload: noted\neach: {letter: [a, b]}\nvary: {launcher: [plain, penstock]}")
    assert [[arm.suite for arm in experiment.arms] for experiment in found] == [[Noted("a")] * 2, [Noted("b")] * 2]
    assert [arm.name for arm in found[1].arms] == ["plain Spark, letter b", "Penstock, letter b"]


def test_experiments_share_what_stands_beside_them_and_may_choose_otherwise() -> None:
    first, second = read("""
repetitions: 5
caches: drop
profile: sql
experiments:
  - workload: noted
  - workload: noted
    repetitions: 2
    warmup: 1
    profile: etl
""")
    assert (first.plan.repetitions, first.plan.warmup, first.plan.caches) == (5, 0, "drop")
    assert (second.plan.repetitions, second.plan.warmup, second.plan.caches) == (2, 1, "drop")
    assert (first.arms[0].profile, second.arms[0].profile) == ("sql", "etl")


@given(st.lists(st.sampled_from(["letter", "executors", "executor_cores", "lake", "spark.x"]), unique=True), st.data())
def test_arms_are_the_product_of_what_varies_and_no_two_have_one_name(names: list[str], data: st.DataObject) -> None:
    many = {name: data.draw(st.integers(1, 3)) for name in names}
    axes = {
        name: [f"{name[0]}{n}" if name in ("letter", "lake") else n + 1 for n in range(many[name])] for name in names
    }
    (experiment,) = read(yaml.safe_dump({"workload": "noted", "vary": axes}, sort_keys=False))
    assert len(experiment.arms) == len(list(itertools.product(*axes.values())))
    assert len({arm.name for arm in experiment.arms}) == len(experiment.arms)


@pytest.mark.parametrize(
    ("text", "problem", "fix"),
    [
        ("repetitions: 2", "lab.yaml, line 1: the file names no workload", "workload: noted"),
        ("a: 1\nworkload: noted", "line 1: a is not known", "workload"),
        ("workload: terrasort", "line 1: workload terrasort is not known", "did you mean terasort?"),
        ("workload: noted\nrepetition: 2", "line 2: repetition is not known", "did you mean repetitions?"),
        ("workload: noted\noptions:\n  letter: a\n  leter: b", "line 4: options.leter is not", "did you mean letter?"),
        ("workload: noted\noptions:\n  letter: '?'", "line 3: no such letter", ""),
        ("workload: noted\nvary:\n  letter:\n  - a\n  - '?'", "line 5: no such letter", ""),
        ("workload: noted\noptions:\n  bytes_needed: 1\n  letter: z", "line 1: the last letter", ""),
        ("workload: noted\nvary:\n  laucher: [plain]", "line 3: vary.laucher is not known", "did you mean launcher?"),
        ("workload: noted\nvary:\n  lake: far", "line 3: vary.lake is not a list", "after a dash"),
        ("workload: noted\nvary: {lake: []}", "line 2: vary.lake is not a list", ""),
        ("workload: noted\nvary: {lake: [a, a]}", "line 2: vary has two arms called “a”", ""),
        ("workload: noted\narms:\n- name: x\n- name: x", "line 2: arms has two arms called “x”", "name:"),
        ("workload: noted\nvary: {lake: [a]}\narms: [{lake: b}]", "line 2: vary and arms exclude each other", ""),
        ("workload: noted\nrepetitions: 0", "line 2: repetitions is not a whole number of at least 1 but 0", ""),
        ("workload: noted\nwarmup: yes", "line 2: warmup is not a whole number of at least 0 but True", ""),
        ("workload: noted\ncaches: flush", "line 2: caches cannot be 'flush'", "keep, drop"),
        ("workload: noted\nlauncher: yarn", "line 2: launcher cannot be 'yarn'", "penstock, plain"),
        ("workload: noted\nprofile: +s3a", "line 2: profile cannot be 's3a'", "s3a-tuned"),
        ("workload: noted\nprofile: ''", "line 2: profile cannot be ''", "sql"),
        ("workload: noted\nprofile: sequel", "line 2: profile cannot be 'sequel'", "sql"),
        (
            "workload: noted\nlauncher: plain\nsettings:\n  spark.penstock.scratch.memory: 1g",
            "line 4: settings.spark.penstock.scratch.memory is a choice of Penstock, which plain Spark cannot take",
            "list the arms",
        ),
        (
            "workload: noted\nscratch: /mnt\nvary:\n  launcher: [penstock, plain]",
            "line 2: scratch is a choice of Penstock",
            "give it to the others",
        ),
        ("workload: noted\nvary: {launcher: [[plain]]}", "line 2: vary.launcher[0] cannot be", ""),
        ("workload: noted\nexecutor_memory: 4 gigs", "line 2: executor_memory is not a size", "4g"),
        ("workload: noted\nexecutor_memory: 4096", "line 2: executor_memory is not a size", "4g"),
        ("workload: noted\nexecutors: 1.5", "line 2: executors is not a whole number", ""),
        ("workload: noted\ngateways: 0", "line 2: gateways is not a whole number of at least 1 but 0", ""),
        ("workload: noted\nlake: [a]", "line 2: lake is not a name", ""),
        ("workload: noted\nsettings:\n  sql.x: 1", "line 3: settings.sql.x is not a setting of Spark", "spark."),
        ("workload: noted\nsettings: {spark.x: [1]}", "line 2: settings.spark.x is not one value", ""),
        ("experiments:\n- workload: noted\n- workloads: noted", "line 3: experiments[1].workloads", "workload?"),
        ("experiments: []", "line 1: experiments is not a list", ""),
        ("- workload: noted", "line 1: the file is not a mapping", "name: value"),
        ("workload: noted\nvary:\n  executors: [1, 2\n", "lab.yaml, line 4: this is not YAML", ""),
    ],
)
def test_a_wrong_file_is_answered_with_the_line_and_a_way_out(text: str, problem: str, fix: str) -> None:
    error = refused(text)
    assert problem in error.problem
    assert fix in error.fix


def test_a_small_file_cannot_ask_for_more_than_anybody_waits_for() -> None:
    axes = "".join(f"  spark.{n}: [{', '.join(map(str, range(100)))}]\n" for n in range(20))
    assert "combinations" in refused(f"workload: noted\nvary:\n{axes}").problem
    hundred = f"[{', '.join(map(str, range(1, 101)))}]"
    both = f"workload: noted\neach: {{executors: {hundred}}}\nvary: {{executor_cores: {hundred}}}"
    assert "more than 1000 arms" in refused(both).problem


def test_an_arm_may_reach_the_store_through_another_client() -> None:
    (experiment,) = read("workload: noted\nvary: {profile: [tpcds, tpcds+s3a-default]}")
    assert [arm.profile for arm in experiment.arms] == ["tpcds", "tpcds+s3a-default"]
    assert "s3a-tuned" in refused("workload: noted\nprofile: tpcds+s3a").fix
    assert "terasort" in refused("workload: noted\nprofile: tpch+s3a-tuned").fix


def test_a_round_trip_is_the_same_for_all_arms_and_adds_to_what_they_say() -> None:
    (experiment,) = read("""
workload: noted
round_trip: 5ms
arms:
  - name: a
  - name: b
    settings: {spark.executor.extraJavaOptions: -Da=1}
""")
    waits = [arm.settings["spark.executor.extraJavaOptions"] for arm in experiment.arms]
    assert waits == ["-Dpenstock.lab.round.trip=5000", "-Da=1 -Dpenstock.lab.round.trip=5000"]
    assert refused("workload: noted\nround_trip: soon").problem.startswith("lab.yaml, line 2: round_trip")
    assert "5ms" in refused("workload: noted\nround_trip: 5").fix
