from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.errors import MissingRequirement
from penstock.model import ProcessSize
from penstock.runtime import jvm

SIZE = ProcessSize(cores=2, memory_bytes=1 << 30)


def fake_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    executable = home / "bin" / "java"
    executable.write_text("#!/bin/sh\nexit 1\n")
    executable.chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="ignored"\nJAVA_RUNTIME_VERSION="{version}"\n')
    return home


def jars(directory: Path, *names: str) -> list[Path]:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).write_bytes(b"jar")
    return [directory / name for name in names]


@pytest.fixture
def common(tmp_path: Path) -> jvm.Jvm:
    return jvm.Jvm(
        java=jvm.Java(Path("/java"), "17.0.15+6"),
        jars=tuple(jars(tmp_path / "a b", "penstock-cluster.jar", "x.jar")),
        private=tmp_path / "private",
        scratch=tmp_path / "scratch",
        archives=tmp_path / "cache",
    )


class TestFindingJava:
    def test_penstocks_own_variable_wins_over_java_home_and_the_path(self, tmp_path: Path) -> None:
        environment = {
            "PENSTOCK_JAVA_HOME": str(fake_java(tmp_path / "own", "21.0.2+13")),
            "JAVA_HOME": str(fake_java(tmp_path / "general", "17.0.1+1")),
            "PATH": str(fake_java(tmp_path / "path", "17.0.3+1") / "bin"),
        }
        found = []
        for variable in ("PENSTOCK_JAVA_HOME", "JAVA_HOME", "PATH"):
            found.append(jvm.find_java(environment).version)
            del environment[variable]
        assert found == ["21.0.2+13", "17.0.1+1", "17.0.3+1"]

    def test_no_java_says_what_to_install(self, tmp_path: Path) -> None:
        with pytest.raises(MissingRequirement) as error:
            jvm.find_java({"PATH": str(tmp_path)})
        assert "apt-get install" in error.value.fix

    @pytest.mark.parametrize("version", ["1.8.0_392-b08", "11.0.20+8", "16.0.2+7"])
    def test_an_old_java_is_refused_and_named(self, tmp_path: Path, version: str) -> None:
        with pytest.raises(MissingRequirement, match="too old") as error:
            jvm.find_java({"JAVA_HOME": str(fake_java(tmp_path / "old", version))})
        assert "JAVA_HOME" in error.value.why

    def test_a_directory_without_java_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(MissingRequirement) as error:
            jvm.find_java({"PENSTOCK_JAVA_HOME": str(tmp_path)})
        assert "PENSTOCK_JAVA_HOME" in error.value.why


class TestClassPath:
    def test_the_order_does_not_depend_on_the_file_systems(self, tmp_path: Path) -> None:
        found = jars(tmp_path, "zeta.jar", "alpha.jar", "spark-core_2.13-4.1.2.jar", "penstock-cluster.jar")
        assert jvm.ordered(found) == jvm.ordered(reversed(found))
        assert [jar.name for jar in jvm.ordered(found)][:2] == ["penstock-cluster.jar", "spark-core_2.13-4.1.2.jar"]

    def test_a_jar_of_penstocks_replaces_sparks_of_the_same_name(self, tmp_path: Path) -> None:
        own, sparks = jars(tmp_path / "own", "janino-3.1.9.jar")[0], jars(tmp_path / "spark", "janino-3.1.9.jar")[0]
        assert jvm.ordered([own, sparks]) == (own,)

    def test_other_schedulers_and_operating_systems_are_left_out(self, tmp_path: Path) -> None:
        names = ("spark-kubernetes_2.13-4.1.2.jar", "netty-transport-native-kqueue-4.2.7.Final-osx-x86_64.jar")
        assert jvm.ordered(jars(tmp_path, *names)) == ()

    def test_jars_that_were_not_built_are_an_error_with_the_command_to_build_them(self, tmp_path: Path) -> None:
        jars(tmp_path, "spark-core_2.13-4.1.2.jar")
        with pytest.raises(MissingRequirement) as error:
            jvm.class_path([tmp_path])
        assert "mvn" in error.value.fix


class TestArchives:
    def test_another_java_another_order_or_a_replaced_jar_is_another_archive(self, common: jvm.Jvm) -> None:
        def where(java: jvm.Java = common.java, order: tuple[Path, ...] = common.jars) -> Path:
            return jvm.archive(Path("/cache"), java, order, "driver")

        before = where()
        assert where() == before
        assert where(java=jvm.Java(Path("/java"), "17.0.16+8")) != before
        assert where(order=common.jars[::-1]) != before
        os.utime(common.jars[0], ns=(1, 1))
        assert where() != before

    def test_an_archive_is_used_only_once_it_is_there(self, common: jvm.Jvm) -> None:
        def command() -> list[str]:
            return jvm.executor_command(
                common, size=SIZE, cluster=Path("/c"), executor_id=0, properties=Path("/p/spark.conf")
            )

        made = jvm.archive(common.archives or Path(), common.java, common.jars, "executor")
        flag = f"-XX:SharedArchiveFile={made}"
        assert flag not in command()
        made.parent.mkdir(parents=True)
        made.write_bytes(b"")
        assert flag in command()


class TestCommands:
    def test_driver_and_executor_have_one_class_path_so_that_one_order_serves_both(self, common: jvm.Jvm) -> None:
        driver = jvm.driver_command(
            common, size=SIZE, log=Path("/l"), properties=Path("/p/spark.conf"), application=["app.py", "ä b"]
        )
        executor = jvm.executor_command(
            common, size=SIZE, cluster=Path("/c"), executor_id=3, properties=Path("/p/spark.conf")
        )
        assert driver[driver.index("-cp") + 1] == executor[executor.index("-cp") + 1]
        assert driver[-2:] == ["app.py", "ä b"]
        assert executor[executor.index("--executor-id") + 1] == "3"

    def test_the_private_directory_comes_last_since_archives_hold_for_a_prefix_of_jars(self, common: jvm.Jvm) -> None:
        command = jvm.driver_command(common, size=SIZE, log=Path("/l"), properties=Path("/p"), application=[])
        assert command[command.index("-cp") + 1].split(os.pathsep)[-1] == str(common.private)

    def test_training_changes_nothing_but_what_happens_at_the_end(self, common: jvm.Jvm) -> None:
        command = jvm.driver_command(common, size=SIZE, log=Path("/l"), properties=Path("/p"), application=["a.py"])
        trained = jvm.training(command, Path("/t.jsa"))
        assert "-XX:ArchiveClassesAtExit=/t.jsa" in trained
        assert [argument for argument in trained if argument in command] == command
