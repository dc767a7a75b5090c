"""Root's database runs under another account, which must be able to reach the programs."""

from __future__ import annotations

from pathlib import Path

from penstock.catalog.server import is_executable_by_all


def test_a_program_below_a_private_directory_is_out_of_reach_for_others(tmp_path: Path) -> None:
    program = tmp_path / "site" / "bin" / "postgres"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    (tmp_path / "site").chmod(0o700)
    assert not is_executable_by_all(program)


def test_a_program_of_the_system_is_in_reach_for_all() -> None:
    assert is_executable_by_all(Path("/bin/sh"))
