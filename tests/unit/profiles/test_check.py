from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidInput
from penstock.profiles import check as owned
from penstock.profiles import workloads
from penstock.profiles.check import REDACTION, check, is_secret, raise_errors
from penstock.profiles.known import Registry, bundled_registry
from penstock.profiles.layers import resolve
from penstock.profiles.rules import Problem, Severity
from tests.unit.profiles.profile_sizes import LAPTOP

KNOWN = Registry.of(
    [
        {"key": "spark.sql.shuffle.partitions", "kind": "int", "default": "200"},
        {"key": "spark.sql.autoBroadcastJoinThreshold", "kind": "size", "unit": "b", "default": "10MB"},
        {"key": "spark.sql.adaptive.enabled", "kind": "boolean", "default": "true"},
        {"key": "spark.sql.adaptive.skewJoin.enabled", "kind": "boolean", "default": "true"},
        {"key": "spark.sql.sources.partitionOverwriteMode", "kind": "choice", "choices": ["DYNAMIC", "STATIC"]},
        {"key": "spark.sql.execution.arrow.enabled", "kind": "boolean", "deprecated": "use the other"},
        {"key": "spark.eventLog.enabled", "kind": "boolean", "default": "false"},
        {"key": "spark.files.io.threads", "kind": "string"},
        {"key": "spark.penstock.skipping.enabled", "kind": "boolean", "default": "true"},
        {"key": "spark.shuffle.io.serverThreads", "kind": "string"},
        {"key": "spark.memory.fraction", "kind": "double", "default": "0.6"},
        {"key": "spark.network.timeout", "kind": "time", "unit": "s", "default": "120s"},
        {"key": "fs.s3a.connection.maximum", "kind": "number", "default": "500"},
        {"key": "fs.s3a.multipart.size", "kind": "size", "default": "64M"},
        {"key": "fs.s3a.connection.ttl", "kind": "time", "default": "5m"},
        {"key": "fs.s3a.endpoint", "kind": "string"},
    ]
)
BENEATH = resolve(workloads.profile_layers("default"), LAPTOP).values()


def problems(key: str, value: str = "1", **more: str) -> list[Problem]:
    return check({key: value, **more}, KNOWN, size=LAPTOP, beneath=BENEATH)


def the_error(key: str, value: str = "1") -> Problem:
    (found,) = problems(key, value)
    assert found.severity is Severity.ERROR
    assert found.fix
    return found


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("spark.sql.shufle.partitions", "spark.sql.shuffle.partitions"),
        ("spark.sql.shuffle.partition", "spark.sql.shuffle.partitions"),
        ("spark.sql.shufflePartitions", "spark.sql.shuffle.partitions"),
        ("spark.eventlog.enabled", "spark.eventLog.enabled"),
        ("spark.hadoop.fs.s3a.conection.maximum", "spark.hadoop.fs.s3a.connection.maximum"),
        ("spark.hadoop.fs.s3a.bucket.lake.conection.maximum", "spark.hadoop.fs.s3a.connection.maximum"),
        ("fs.s3a.endpoint", "spark.hadoop.fs.s3a.endpoint"),
        ("sql.shuffle.partitions", "spark.sql.shuffle.partitions"),
    ],
)
def test_a_misspelt_key_is_refused_with_the_closest_one(slip: str, meant: str) -> None:
    assert f"{meant}=" in the_error(slip).fix


@given(st.sampled_from(sorted(KNOWN.settings)), st.data())
def test_a_lost_or_doubled_letter_never_passes_in_silence(key: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(len("spark.hadoop.fs.s3a.") if ".fs.s3a." in key else len("spark.x"), len(key) - 1))
    slip = data.draw(st.sampled_from([key[:place] + key[place + 1 :], key[:place] + key[place] + key[place:]]))
    assert problems(slip) != []


@pytest.mark.parametrize(
    "key",
    [
        "spark.myapp.window",
        "spark.acme.retries.max",
        "spark.executorEnv.MODE",
        "spark.sql.catalog.iceberg.type",
        "spark.streaming.ui.x",
    ],
)
def test_a_name_space_of_the_users_own_is_theirs(key: str) -> None:
    assert problems(key, "x") == []


def test_likeness_to_a_known_key_in_a_foreign_name_space_is_only_a_warning() -> None:
    (found,) = problems("spark.sqll.shuffle.partitions")
    assert found.severity is Severity.WARNING
    assert "spark.sql.shuffle.partitions" in found.fix


def test_a_key_that_is_only_like_another_is_not_taken_for_it() -> None:
    (found,) = problems("spark.shuffle.io.threads", "64")
    assert found.severity is Severity.WARNING


def test_an_unknown_key_of_sparks_own_is_a_warning() -> None:
    (found,) = problems("spark.sql.madeUpByNobody")
    assert found.severity is Severity.WARNING


@pytest.mark.parametrize(
    ("key", "wrong", "right"),
    [
        ("spark.sql.shuffle.partitions", "many", "12"),
        ("spark.sql.shuffle.partitions", "10k", "10"),
        ("spark.sql.autoBroadcastJoinThreshold", "30 mb of data", "-1"),
        ("spark.sql.adaptive.enabled", "yes", "TRUE"),
        ("spark.memory.fraction", "60%", "0.6"),
        ("spark.network.timeout", "5 hours", "5min"),
        ("spark.sql.sources.partitionOverwriteMode", "sometimes", "static"),
        ("spark.hadoop.fs.s3a.connection.maximum", "lots", "200"),
        ("spark.hadoop.fs.s3a.multipart.size", "64MB", "64M"),
        ("spark.hadoop.fs.s3a.connection.ttl", "5min", "5m"),
        ("spark.hadoop.fs.s3a.bucket.lake.connection.ttl", "5min", "5m"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(key: str, wrong: str, right: str) -> None:
    the_error(key, wrong)
    assert problems(key, right) == []


def test_a_variable_is_not_judged() -> None:
    assert problems("spark.hadoop.fs.s3a.multipart.size", "${env.PART}") == []


def test_a_setting_out_of_use_is_a_warning_that_says_what_took_its_place() -> None:
    (found,) = problems("spark.sql.execution.arrow.enabled", "true")
    assert (found.severity, found.why) == (Severity.WARNING, "use the other")


@pytest.mark.parametrize(
    ("key", "value", "instead"),
    [
        ("spark.master", "yarn", "omit"),
        ("spark.submit.deployMode", "cluster", "omit"),
        ("spark.app.name", "x", "--name"),
        ("spark.jars", "a.jar", "--jars"),
        ("spark.driver.memory", "9g", "--driver-memory"),
        ("spark.executor.memory", "9g", "--executor-memory"),
        ("spark.executor.instances", "7", "--executors"),
        ("spark.penstock.directory", "/x", "omit"),
    ],
)
def test_what_the_engine_decides_names_the_option_to_use(key: str, value: str, instead: str) -> None:
    assert instead in the_error(key, value).fix


def test_skipping_is_the_users_to_set() -> None:
    assert problems("spark.penstock.skipping.enabled", "false") == []
    assert "true or false" in the_error("spark.penstock.skipping.enabled", "no").problem
    assert "spark.penstock.skipping.enabled" in the_error("spark.penstock.skiping.enabled", "false").fix


@pytest.mark.parametrize("same", ["4g", "4096m", "4096"])
def test_a_size_given_twice_and_the_same_is_only_a_warning(same: str) -> None:
    (found,) = problems("spark.executor.memory", same)
    assert found.severity is Severity.WARNING


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.dynamicAllocation.enabled": "true"},
        {"spark.shuffle.service.enabled": "true"},
        {"spark.memory.fraction": "1.5"},
        {"spark.memory.storageFraction": "-0.1"},
        {"spark.memory.offHeap.enabled": "true"},
        {
            "spark.sql.sources.partitionOverwriteMode": "dynamic",
            "spark.sql.sources.commitProtocolClass": "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol",
        },
        {"spark.hadoop.fs.s3a.committer.magic.track.commits.in.memory.enabled": "false"},
        {"spark.hadoop.fs.s3a.committer.magic.enabled": "false"},
        {"spark.hadoop.fs.s3a.multipart.size": "1M"},
        {"spark.task.cpus": "3"},
        {"spark.executor.heartbeatInterval": "20min"},
        {"spark.executor.extraJavaOptions": "-Xmx3g"},
        {"spark.driver.extraJavaOptions": "-Dspark.sql.shuffle.partitions=4"},
        {"spark.driver.extraJavaOptions": "-Dx='open"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_settings_that_contradict_each_other_or_the_cluster_are_refused(settings: dict[str, str]) -> None:
    found = check(settings, Registry({}), size=LAPTOP, beneath=BENEATH)
    assert [problem for problem in found if problem.severity is Severity.ERROR and problem.fix]


def test_dynamic_overwrite_is_fine_with_the_profiles_own_protocol() -> None:
    assert problems("spark.sql.sources.partitionOverwriteMode", "dynamic") == []


def test_idle_settings_are_a_warning() -> None:
    (found,) = problems("spark.sql.adaptive.skewJoin.enabled", "true", **{"spark.sql.adaptive.enabled": "false"})
    assert found.severity is Severity.WARNING
    assert "spark.sql.adaptive.skewJoin.enabled" in found.keys


def test_a_contradiction_within_the_profile_is_not_the_users_to_hear_of() -> None:
    beneath = {"spark.dynamicAllocation.enabled": "true"}
    assert check({"spark.myapp.x": "1"}, KNOWN, beneath=beneath) == []


SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.hadoop.fs.s3a.secret.key", SECRET),
        ("spark.hadoop.fs.s3a.access.key", SECRET),
        ("spark.hadoop.fs.s3a.bucket.lake.session.token", SECRET),
        ("spark.executorEnv.AWS_SECRET_ACCESS_KEY", SECRET),
        ("spark.authenticate.secret", SECRET),
        ("spark.ssl.keyStorePassword", SECRET),
        ("spark.hadoop.javax.jdo.option.ConnectionPassword", SECRET),
        ("spark.hadoop.fs.azure.account.key.x.dfs.core.windows.net", SECRET),
        ("spark.myapp.apiKey", SECRET),
        ("spark.myapp.database", f"jdbc:postgresql://h/db?user=me&password={SECRET}"),
        ("spark.myapp.source", f"https://me:{SECRET}@example.org/x"),
        ("spark.myapp.id", "AKIAIOSFODNN7EXAMPLE"),
        ("spark.driver.extraJavaOptions", f"-Dx=1 -Dapp.password={SECRET}"),
        ("spark.driver.extraJavaOptions", f"-Dx=' -Dapp.password={SECRET}"),
    ],
)
def test_a_secret_is_refused_and_never_repeated(key: str, value: str) -> None:
    found = problems(key, value)
    assert found[0].severity is Severity.ERROR
    assert is_secret(key, value)
    with pytest.raises(InvalidInput) as refused:
        raise_errors(found)
    for text in (*map(str, found), str(refused.value)):
        assert value not in text
        assert SECRET not in text


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (
            "spark.hadoop.fs.s3a.aws.credentials.provider",
            "software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider",
        ),
        ("spark.hadoop.fs.s3a.security.credential.provider.path", "jceks://file/secrets.jceks"),
        ("spark.authenticate.secret.file", "/run/secret"),
        ("spark.kubernetes.driver.secretKeyRef.TOKEN", "name:key"),
        ("spark.kubernetes.executor.secrets.aws-secret", "/etc/secrets"),
        ("spark.hadoop.fs.s3a.encryption.key", "arn:aws:kms:eu-west-1:1:key/2"),
        ("spark.myapp.usePassword", "true"),
        ("spark.myapp.source", "s3a://lake/table"),
    ],
)
def test_a_reference_to_a_secret_is_not_one(key: str, value: str) -> None:
    assert not is_secret(key, value)


_AS_AN_OPTION = "-Dspark.redaction.regex=(?!)"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.redaction.regex", "(?!)"),
        ("spark.redaction.string.regex", "(?!)"),
        (" spark.redaction.regex", "(?!)"),
        ("Spark.redaction.regex", "(?!)"),
        ("SPARK.REDACTION.REGEX", "(?!)"),
        ("\tspark.redaction.regex", "(?!)"),
        ("redaction.regex", "(?!)"),
        ("--conf spark.redaction.regex", "(?!)"),
        ("spark.authenticate", "false"),
        ("spark.authenticate.secret", SECRET),
        ("spark.authenticate.secret.file", "/tmp/mine"),  # noqa: S108
        ("spark.authenticate.secret.driver.file", "/tmp/mine"),  # noqa: S108
        ("spark.authenticate.secret.executor.file", "/tmp/mine"),  # noqa: S108
        ("spark.connect.authenticate.token", SECRET),
        ("spark.master", "local[*]"),
        ("spark.remote", "sc://thief.example"),
        ("spark.submit.deployMode", "client"),
        ("spark.app.id", "app-of-a-neighbour"),
        ("spark.local.dir", "/tmp"),  # noqa: S108
        ("spark.eventLog.dir", "s3a://lake/penstock/events"),
        ("spark.driver.host", "thief.example"),
        ("spark.driver.port", "4444"),
        ("spark.driver.bindAddress", "0.0.0.0"),  # noqa: S104
        ("spark.penstock.application", "app-of-a-neighbour"),
        ("spark.penstock.key", "x"),
        ("spark.penstock.made.up.by.nobody", "x"),
        ("spark.hadoop.fs.s3a.secret.key", SECRET),
        ("spark.hadoop.fs.s3a.access.key", "AKIAIOSFODNN7EXAMPLE"),
        *(
            (f"spark.executorEnv.{variable}", options)
            for variable in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
            for options in (_AS_AN_OPTION, "-D'spark.authenticate'=false", "-Dx=1 @/tmp/options")
        ),
        *(
            (f"spark.{role}.{which}JavaOptions", options)
            for role in ("driver", "executor")
            for which in ("extra", "default")
            for options in (
                _AS_AN_OPTION,
                f"-Dx=1   '{_AS_AN_OPTION}'",
                "-Dspark.authenticate=false",
                "@/tmp/options",
                "'@options'",
                "-XX:Flags=/tmp/flags",
                "-XX:VMOptionsFile=/tmp/options",
            )
        ),
    ],
)
def test_an_application_cannot_have_the_engines_secrets_shown_or_replaced(key: str, value: str) -> None:
    found = [problem for problem in problems(key, value) if problem.severity is Severity.ERROR]
    assert found and all(problem.fix for problem in found)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("driver.secrets.neighbours-lake", "/mnt/stolen"),
        ("executor.secrets.neighbours-lake", "/mnt/stolen"),
        ("driver.secretKeyRef.STOLEN", "neighbours-lake:credentials"),
        ("executor.secretKeyRef.STOLEN", "neighbours-lake:credentials"),
        ("driver.podTemplateFile", "s3a://lake/pod.yaml"),
        ("executor.podTemplateFile", "s3a://lake/pod.yaml"),
        ("executor.podTemplateContainerName", "x"),
        ("executor.volumes.hostPath.root.mount.path", "/host"),
        ("executor.volumes.persistentVolumeClaim.theirs.options.claimName", "neighbours-claim"),
        ("hadoop.configMapName", "neighbours-settings"),
        ("kerberos.tokenSecret.name", "neighbours-ticket"),
        ("authenticate.serviceAccountName", "administrator"),
        ("authenticate.driver.serviceAccountName", "administrator"),
        ("authenticate.executor.serviceAccountName", "administrator"),
        ("authenticate.oauthTokenFile", "/etc/penstock/key"),
        ("namespace", "kube-system"),
        ("container.image", "evil.example/spark"),
        ("container.image.pullSecrets", "neighbours-registry"),
        ("executor.container.image", "evil.example/spark"),
        ("executor.annotation.iam.amazonaws.com/role", "neighbour"),
        ("executor.label.app", "neighbour"),
        ("executor.node.selector.dedicated", "neighbour"),
        ("node.selector.dedicated", "neighbour"),
        ("executor.pod.featureSteps", "evil.Step"),
        ("executor.scheduler.name", "evil"),
        ("executor.deleteOnTermination", "false"),
        ("local.dirs.tmpfs", "true"),
        ("executor.limit.cores", "64"),
        ("memoryOverheadFactor", "0.9"),
        ("madeUpByNobody", "1"),
        ("driver.volumes.hostPath.root.mount.path", "/host"),
        ("driver.volumes.emptyDir.x.options.medium", "Memory"),
        ("executor.volumes.nfs.theirs.options.server", "10.0.0.1"),
        ("driver.annotation.iam.amazonaws.com/role", "neighbour"),
        ("driver.label.app", "neighbour"),
        ("driver.service.annotation.external", "true"),
        ("driver.pod.name", "app-of-a-neighbour"),
        ("driver.pod.featureSteps", "evil.Step"),
        ("executor.podNamePrefix", "app-of-a-neighbour"),
        ("authenticate.submission.oauthToken", "x"),
        ("authenticate.driver.caCertFile", "/etc/ca.pem"),
        ("authenticate.driver.clientKeyFile", "/etc/penstock/key"),
        ("driver.master", "https://thief.example"),
        ("context", "another"),
        ("trust.certificates", "true"),
    ],
)
def test_a_pod_cannot_be_made_to_read_or_to_be_what_belongs_to_a_neighbour(part: str, value: str) -> None:
    found = problems(f"spark.kubernetes.{part}", value)
    assert [problem for problem in found if problem.severity is Severity.ERROR and problem.why and problem.fix]


@pytest.mark.parametrize("key", owned.KUBERNETES_USER_SETTINGS)
def test_when_executors_are_asked_for_is_the_users_to_say(key: str) -> None:
    assert problems(key, "10") == []


@pytest.mark.parametrize(
    "shown",
    [
        "spark.authenticate.secret",
        "spark.connect.authenticate.token",
        "javax.jdo.option.ConnectionPassword",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.session.token",
        "spark.hadoop.fs.s3a.encryption.key",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "fs.azure.account.key",
        "a.private.key",
        "an.api-key",
        "its.passphrase",
        "its.passwd",
        "postgresql://penstock:hunter2@db.example/penstock",
    ],
)
def test_spark_redacts_every_setting_that_penstock_treats_as_secret(shown: str) -> None:
    assert re.search(REDACTION, shown)


@pytest.mark.parametrize(
    "shown",
    ["spark.sql.shuffle.partitions", "spark.hadoop.fs.s3a.aws.credentials.provider", "s3a://lake/a:b@c", *BENEATH],
)
def test_spark_hides_nothing_else(shown: str) -> None:
    assert not re.search(REDACTION, shown)


def test_several_errors_are_reported_together() -> None:
    with pytest.raises(InvalidInput) as refused:
        raise_errors(check({"spark.master": "yarn", "spark.sql.shufle.partitions": "4"}, KNOWN))
    assert refused.value.problem == "2 settings cannot be used"
    assert "spark.master" in refused.value.why
    assert "spark.sql.shuffle.partitions" in refused.value.fix


def test_warnings_alone_do_not_stop_a_launch() -> None:
    raise_errors(problems("spark.sql.madeUpByNobody"))


@given(st.dictionaries(st.text(max_size=30) | st.sampled_from([*BENEATH, *KNOWN.settings]), st.text(max_size=30)))
def test_no_settings_make_the_check_fail(settings: dict[str, str]) -> None:
    check(settings, KNOWN, size=LAPTOP, beneath=BENEATH)


def test_a_memory_tier_of_ones_own_is_said_to_be_nobodys_promise() -> None:
    found = problems("spark.hadoop.fs.s3a.penstock.cache.memory.size", "8G")
    (said,) = (problem for problem in found if "no memory is reserved" in problem.problem)
    assert said.severity is Severity.WARNING
    assert said.fix.startswith("penstock cache size --memory")


def test_settings_of_a_cache_that_is_off_have_no_effect_and_turning_it_off_is_fine() -> None:
    off = {"spark.hadoop.fs.s3a.penstock.cache.enabled": "false"}
    found = problems("spark.hadoop.fs.s3a.penstock.cache.strict", "true", **off)
    assert any("no effect" in problem.problem and "cache.enabled" in problem.problem for problem in found)
    assert check(off, bundled_registry(), size=LAPTOP, beneath=BENEATH) == []
