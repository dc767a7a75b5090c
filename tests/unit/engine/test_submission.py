"""Submissions that are refused before a cluster starts."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest

from penstock.engine import submission
from penstock.engine.submission import missing_modules, resolve, validate, warnings_again
from penstock.errors import ClusterError, InvalidInput, NotFound
from penstock.home import Home
from penstock.model import Capacity
from penstock.profiles import layers
from tests.support.fake_engine import FakeBackend
from tests.unit.engine.engine_making import size, spec


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "mein größter Job, v2.py"
    path.write_text("import json\nprint(1)\n", encoding="utf-8")
    return path


def jar(path: Path, *entries: str, manifest: str = "") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", manifest)
        for entry in entries:
            archive.writestr(entry, b"")
    return path


def test_paths_become_absolute(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(script.parent)
    assert validate(spec(application=script.name)).application == str(script)


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": size(0)},
        {"size": size(1, cores=0)},
        {"size": size(1, memory=100 << 20)},
        {"time_limit_seconds": 0},
        {"main_class": "a.B"},
        {"environment": {"DB_PASSWORD": "x"}},
        {"environment": {"JAVA_TOOL_OPTIONS": "-Xlog -Dspark.kubernetes.executor.secrets.neighbours=/mnt"}},
        {"environment": {"_JAVA_OPTIONS": "-Dspark.redaction.regex=nothing"}},
        {"environment": {"JAVA_TOOL_OPTIONS": "-D'spark.redaction.regex'=nothing"}},
        {"environment": {"JDK_JAVA_OPTIONS": '-Dx=1 "-D"spark.redaction.regex=nothing'}},
        {"environment": {"JDK_JAVA_OPTIONS": "@options"}},
        {"environment": {"JAVA_TOOL_OPTIONS": "-XX:Flags=/home/me/flags"}},
        {"environment": {"NO SUCH": "x"}},
        {"application": "/etc/hostname"},
        {"priority": 101},
        {"priority": -101},
        {"retries": -1},
        {"retries": 11},
        {"webhooks": ("https://a.example/",) * 6},
        {"webhooks": ("file:///etc/passwd",)},
        {"webhooks": ("https://user:secret@a.example/",)},
        {"idempotency_key": ""},
        {"idempotency_key": "a\nb"},
        {"idempotency_key": "x" * 256},
    ],
)
def test_what_cannot_be_is_refused_with_a_fix(script: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        validate(spec(**{"application": str(script), **wrong}))
    assert refused.value.fix


@pytest.mark.parametrize("option", ["jars", "files", "python_files"])
def test_every_file_named_must_be_there(script: Path, option: str) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        validate(spec(application=str(script), **{option: ("/nowhere.jar",)}))


def test_a_missing_application_file_is_said_with_its_path() -> None:
    with pytest.raises(NotFound, match=r"/nowhere/a\.py"):
        validate(spec(application="/nowhere/a.py"))


def test_a_file_that_is_no_jar_is_seen_by_its_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.jar"
    path.write_text("<html>not found</html>", encoding="utf-8")
    with pytest.raises(InvalidInput, match="is not a jar"):
        validate(spec(application=str(path), main_class="a.B"))


def test_a_class_that_is_not_in_the_jar(tmp_path: Path) -> None:
    path = jar(tmp_path / "a.jar", "com/example/Main.class")
    assert validate(spec(application=str(path), main_class="com.example.Main")).main_class
    with pytest.raises(NotFound, match=r"com\.example\.Mian"):
        validate(spec(application=str(path), main_class="com.example.Mian"))


def test_the_manifest_names_the_class_where_the_user_does_not(tmp_path: Path) -> None:
    path = jar(tmp_path / "a.jar", "com/example/Main.class", manifest="Main-Class: com.example.Main\n")
    assert validate(spec(application=str(path))).main_class == "com.example.Main"
    with pytest.raises(InvalidInput, match="needs a main class"):
        validate(spec(application=str(jar(tmp_path / "b.jar"))))


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("import no_such_module_here\n", ["no_such_module_here"]),
        ("from no_such_module_here.part import x\n", ["no_such_module_here"]),
        ("import json, os.path\n", []),
        ("try:\n    import no_such_module_here\nexcept ImportError:\n    pass\n", []),
        ("def f():\n    import no_such_module_here\n", []),
        ("import sys\nsys.path.append('x')\nimport no_such_module_here\n", []),
        ("import beside\n", []),
        ("import brought\n", []),
        ("this is no python", []),
    ],
)
def test_only_imports_that_must_fail_are_called_missing(tmp_path: Path, source: str, missing: list[str]) -> None:
    (tmp_path / "beside.py").touch()
    script = tmp_path / "a.py"
    script.write_text(source, encoding="utf-8")
    assert list(missing_modules(script, [tmp_path / "elsewhere" / "brought.py"])) == missing


ODD = {"spark.executor.memoryOverhead": "1g", "spark.sql.shufle.partitions.of.mine": "1"}
"""A custom overhead, and a name that Spark does not know."""


def test_what_is_resolved_has_its_memory_its_settings_and_its_warnings(script: Path, tmp_path: Path) -> None:
    asked = spec(application=str(script), settings=ODD)
    found = resolve(asked, FakeBackend(Home(tmp_path)), shares_login=True)
    assert found.spec.size.executor_bytes - asked.size.executor.memory_bytes == 1 << 30
    assert found.spec.settings == ODD  # the user's settings without the profile's
    assert ODD.items() <= found.settings.items()
    assert len(found.settings) > len(ODD)
    first, second = found.warnings
    assert "spark.sql.shufle.partitions.of.mine" in first
    assert second == submission.SHARED_LOGIN


def test_nothing_is_resolved_twice(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    monkeypatch.setattr(layers, "resolve", lambda *given, real=layers.resolve: made.append(given) or real(*given))
    submission._resolved.cache_clear()
    for _ in range(2):
        resolve(spec(application=str(script), settings=ODD), FakeBackend(Home(tmp_path)))
    assert [user for _, _, user in made] == [{}, ODD]


def test_what_exceeds_today_s_nodes_is_warned_of_and_what_exceeds_all_is_refused(script: Path, tmp_path: Path) -> None:
    today = Capacity(1, 1 << 30, elastic=True)
    warned = resolve(spec(application=str(script)), FakeBackend(Home(tmp_path), capacity=today))
    assert ["exceeds today's capacity" in warning for warning in warned.warnings] == [True]
    with pytest.raises(ClusterError, match="does not fit"):
        resolve(spec(application=str(script)), FakeBackend(Home(tmp_path), capacity=Capacity(1, 1 << 30)))


def test_what_was_accepted_is_warned_of_again_although_its_file_is_gone(script: Path, tmp_path: Path) -> None:
    backend = FakeBackend(Home(tmp_path))
    accepted = resolve(spec(application=str(script), settings=ODD), backend)
    script.unlink()
    assert warnings_again(accepted.spec, backend, shares_login=False) == accepted.warnings
