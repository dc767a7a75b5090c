"""Other clients of the store run as their names say, whatever the profiles beneath them set."""

from __future__ import annotations

import pytest

from penstock import units as written
from penstock.errors import MissingRequirement, NotFound
from penstock.profiles import workloads
from penstock.profiles.known import Registry, bundled_registry
from penstock.profiles.layers import resolve
from penstock.profiles.s3a import S3A
from tests.unit.profiles.profile_sizes import DOCUMENTS, LAPTOP

EVERY = [f"{profile}+{client}" for profile in workloads.profile_names() for client in workloads.client_names()]

# None of these changes the speed of the store: a directory, and two flags that are on by default in S3A as well.
_AS_IT_IS = {
    S3A + "buffer.dir",
    S3A + "committer.magic.enabled",
    S3A + "create.conditional.enabled",
    S3A + "audit.execution.interceptors",
}

# Spark declares these two itself, without a value, which hides Hadoop's (org.apache.hadoop.fs.s3a.Constants).
_HIDDEN = {S3A + "vectored.read.min.seek.size": "128K", S3A + "vectored.read.max.merged.size": "2M"}


@pytest.fixture(scope="module")
def known() -> Registry:
    try:
        return bundled_registry()
    except MissingRequirement as missing:
        pytest.skip(f"{missing.problem}; make jars writes it")


def values(name: str, size: object = LAPTOP) -> dict[str, str]:
    return resolve(workloads.profile_layers(name), size).values()  # type: ignore[arg-type]


@pytest.mark.parametrize("name", EVERY)
def test_nothing_of_penstocks_is_plugged_into_a_comparison(name: str) -> None:
    settings = values(name)
    for watching in (S3A + "audit.execution.interceptors", "spark.plugins"):
        settings.pop(watching, None)  # counts what happens, in every arm alike
    settings.pop("spark.sql.extensions")  # idle beside another file system
    plugged = {key for key, value in settings.items() if value.startswith("io.penstock.fs.")}
    assert plugged <= {S3A + "input.stream.custom.factory"}  # used with the type "custom" only
    assert settings[S3A + "impl"] == "org.apache.hadoop.fs.s3a.S3AFileSystem"
    assert settings[S3A + "input.stream.type"] in ("classic", "analytics")


@pytest.mark.parametrize("profile", workloads.profile_names())
@pytest.mark.parametrize("size", [LAPTOP, DOCUMENTS], ids=["laptop", "documents"])
def test_s3a_as_shipped_has_hadoops_value_for_all_that_our_profiles_change(
    profile: str, size: object, known: Registry
) -> None:
    ours, shipped = values(profile, size), values(f"{profile}+s3a-default", size)
    changed = {key for key in ours if key.startswith(S3A) and not key.startswith(S3A + "penstock.")}
    for key in changed - _AS_IT_IS - {S3A + "committer.name", S3A + "input.stream.custom.factory"}:
        setting = known.get(key)
        default = _HIDDEN.get(key, setting.default if setting else None)
        if key == S3A + "input.stream.type":
            assert shipped[key] == "classic"  # what Hadoop's "default" stands for
        elif key == S3A + "experimental.input.fadvise":
            assert shipped[key] == "normal"  # of which Hadoop's "default" is another name
        elif key.endswith(".impl"):
            assert default is not None
            assert shipped[key] == default.removeprefix("class ")
        else:
            assert default is not None, key
            assert _amount(shipped[key]) == _amount(default), key


def _amount(text: str) -> object:
    found = written.parse_size(text)
    return found if found is not None else written.parse_seconds(text) or text


def test_tuned_s3a_reads_columns_by_ranges_and_text_in_one_request() -> None:
    policy = S3A + "experimental.input.fadvise"
    assert values("tpcds+s3a-tuned")[policy] == "random"
    assert values("etl+s3a-tuned")[policy] == "normal"


def test_renaming_differs_from_tuned_in_the_committer_alone() -> None:
    tuned, renaming = values("terasort+s3a-tuned"), values("terasort+s3a-renaming")
    differing = {key for key in tuned.keys() | renaming.keys() if tuned.get(key) != renaming.get(key)}
    assert all("commit" in key for key in differing)
    assert renaming[S3A + "committer.name"] == "file"
    assert renaming["spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3a"].endswith(".FileOutputCommitterFactory")


def test_only_the_analytics_stream_has_another_jar_on_its_class_path() -> None:
    with_jars = [name for name in EVERY if "spark.executor.extraClassPath" in values(name)]
    assert with_jars == [f"{profile}+s3a-analytics" for profile in workloads.profile_names()]


def test_an_unknown_variant_is_reported_with_the_known_ones() -> None:
    with pytest.raises(NotFound, match="no variant 's3n'") as refused:
        workloads.profile_layers("tpcds+s3n")
    assert "s3a-tuned" in refused.value.why
    with pytest.raises(NotFound, match="no variant ''"):
        workloads.profile_layers("tpcds+")
