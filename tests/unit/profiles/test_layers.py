from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidInput, NotFound
from penstock.model import ClusterSize
from penstock.profiles import layers as javaoptions
from penstock.profiles import workloads
from penstock.profiles.layers import Layer, Setting, resolve
from tests.unit.profiles.profile_sizes import LAPTOP, SIZES, cluster

_KEYS = st.sampled_from(["spark.a", "spark.b", "spark.c"])
_MAPPINGS = st.dictionaries(_KEYS, st.text("xyz", max_size=3))
_COLLECTORS = ("-XX:+UseG1GC", "-XX:+UseParallelGC", "-XX:+UseZGC")
_OPTIONS = st.builds(
    lambda options, collector: [*options, *collector],
    st.lists(st.sampled_from(["-Da=1", "-Da=2 3", "-Xss4m", "-XX:-UsePerfData", "-ea"])),
    st.lists(st.sampled_from(_COLLECTORS), max_size=1),
)
JVM = "spark.executor.extraJavaOptions"


def plain(name: str, values: dict[str, str]) -> Layer:
    return Layer.of(name, values, reason="why", source="who")


def resolved_options(*layers: str) -> str:
    return resolve([plain(str(n), {JVM: text}) for n, text in enumerate(layers)], LAPTOP).values()[JVM]


@given(st.lists(_MAPPINGS), _MAPPINGS)
def test_the_strongest_layer_that_sets_a_key_has_it(mappings: list[dict[str, str]], user: dict[str, str]) -> None:
    reference: dict[str, str] = {}
    for mapping in (*mappings, user):
        reference |= mapping
    layers = [plain(str(n), mapping) for n, mapping in enumerate(mappings)]
    assert resolve(layers, LAPTOP, user).values() == reference


@given(st.lists(_MAPPINGS))
def test_overridden_values_are_listed_lowest_first(mappings: list[dict[str, str]]) -> None:
    for setting in resolve([plain(str(n), mapping) for n, mapping in enumerate(mappings)], LAPTOP):
        said = [(str(n), mapping[setting.key]) for n, mapping in enumerate(mappings) if setting.key in mapping]
        assert [(origin.layer, origin.value) for origin in (*setting.overridden, setting.origin)] == said


@given(st.sampled_from(workloads.profile_names()), SIZES)
def test_resolution_is_pure(name: str, size: ClusterSize) -> None:
    layers = workloads.profile_layers(name)
    assert resolve(layers, size) == resolve(layers, size)


def test_a_value_that_follows_from_the_size_follows_it() -> None:
    layer = Layer("x", "", (Setting("spark.a", lambda size: str(size.executor_cores), "why", "who"),))
    assert resolve([layer], cluster(executors=3, cores=4)).values() == {"spark.a": "12"}


def test_a_setting_that_does_not_apply_leaves_the_layer_below() -> None:
    below = plain("below", {"spark.a": "1"})
    above = Layer("above", "", (Setting("spark.a", "2", "why", "who", applies=lambda size: size.executors > 10),))
    assert resolve([below, above], cluster(executors=1)).values() == {"spark.a": "1"}
    assert resolve([below, above], cluster(executors=11)).values() == {"spark.a": "2"}


def test_a_users_listener_does_not_turn_ours_off() -> None:
    resolved = resolve(
        [plain("ours", {"spark.extraListeners": "a.Ours"})], LAPTOP, {"spark.extraListeners": "b.Theirs"}
    )
    assert resolved.values() == {"spark.extraListeners": "a.Ours,b.Theirs"}


def test_nothing_counts_as_overridden_where_layers_add_up() -> None:
    (setting,) = resolve([plain("ours", {JVM: "-Da=1"})], LAPTOP, {JVM: "-Db=2"})
    assert setting.overridden == ()
    assert [origin.layer for origin in setting.origins] == ["ours", "user"]


def test_java_options_are_put_in_a_row() -> None:
    assert resolved_options("-Da=1 -ea", "-Db=2") == "-Da=1 -ea -Db=2"


def test_an_option_with_a_word_of_its_own_keeps_it() -> None:
    opened = "--add-opens java.base/java.lang=ALL-UNNAMED --add-opens java.base/java.io=ALL-UNNAMED"
    assert resolved_options("-ea", opened) == f"-ea {opened}"


def test_choosing_a_collector_drops_the_one_below_as_a_jvm_starts_with_one_only() -> None:
    assert resolved_options("-XX:+UseParallelGC -ea", "-XX:+UseG1GC") == "-ea -XX:+UseG1GC"


@given(st.lists(_OPTIONS))
def test_no_option_is_lost_and_of_those_that_exclude_each_other_the_last_holds(layers: list[list[str]]) -> None:
    joined = shlex.split(javaoptions.merge_options(JVM, [shlex.join(options) for options in layers]))
    asked = [option for options in layers for option in options]
    for exclusive in (_COLLECTORS, ("-Da=1", "-Da=2 3"), ("-ea",), ("-Xss4m",), ("-XX:-UsePerfData",)):
        assert [o for o in joined if o in exclusive] == [o for o in asked if o in exclusive][-1:]


def test_an_open_quote_is_refused_without_repeating_the_text() -> None:
    with pytest.raises(InvalidInput) as refused:
        resolved_options("-Dname='open")
    assert "quot" in refused.value.why
    assert "open" not in str(refused.value).replace("open quote", "")


def test_an_unknown_profile_is_reported_with_the_known_ones() -> None:
    with pytest.raises(NotFound, match="no profile 'tpch'") as refused:
        workloads.profile_layers("tpch")
    assert "tpcds" in refused.value.why
