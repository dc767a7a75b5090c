#!/usr/bin/env python3
"""Write the reference pages that are generated from the code: commands, exit codes, settings of skipping.

    make_reference.py

A unit test compares the files with `pages`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from penstock.cli.main import command
from penstock.errors import PenstockError

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
SKIPPING = ROOT / "jvm" / "skipping" / "src" / "main" / "scala"

_SETTING = re.compile(
    r'\.buildConf\(Prefix \+ "(.+?)"\)\s*\.doc\("(.+?)"\)(.*?)\.create(\w+)(?:\("?(.*?)"?\))?\n', re.DOTALL
)


def _parts(group: Any, parent: Any) -> str:
    """The names of a group's commands, each with the names of its subcommands."""
    context = group.make_context(group.name, [], parent=parent, resilient_parsing=True)
    if not hasattr(group, "list_commands"):
        return ""
    names = sorted(group.list_commands(context))
    return ", ".join(
        f"`{name}`{f' ({parts})' if (parts := _parts(group.resolve_command(context, [name])[1], context)) else ''}"
        for name in names
    )


def _commands() -> str:
    root = command()
    context = root.make_context("penstock", [], resilient_parsing=True)
    lines: dict[str, list[str]] = {}
    for name, stub in list(root.commands.items()):
        if not stub.hidden:
            parts = _parts(root.resolve_command(context, [name])[1], context)
            lines.setdefault(stub.rich_help_panel, []).append(f"- `{name}`: {stub.help}{' ' + parts if parts else ''}")
    return "\n\n".join(f"## {panel}\n\n" + "\n".join(sorted(those)) for panel, those in lines.items())


_OTHER_CODES = """\
- 1: A check or an application failed.
- 70: A defect of the command itself; its trace is in `defects/` of the state directory.
- 124, 128 + n, 130: See [applications](../guide/applications.md#afterwards). 141: The reader of the output has gone.
"""


def _exit_codes() -> str:
    kinds = sorted(PenstockError.__subclasses__(), key=lambda kind: kind.exit_code)
    return "\n".join(f"- {kind.exit_code} `{kind.code}`: {(kind.__doc__ or '').splitlines()[0]}" for kind in kinds)


def _settings() -> str:
    source = SKIPPING / "io" / "penstock" / "skipping" / "model" / "Settings.scala"
    rows = [
        f"- `{name}` ({f'`{default}`' if how.startswith('WithDefault') else 'unset'}): {about}"
        for name, about, _, how, default in _SETTING.findall(source.read_text("utf-8"))
    ]
    return "\n".join(sorted(rows))


def pages() -> dict[Path, str]:
    """Return the pages' texts by their paths."""
    generated = "<!-- make reference writes this page (scripts/make_reference.py) -->"
    return {
        REFERENCE / "commands.md": (
            f"# Commands\n\n{generated}\n\n`penstock COMMAND --help` shows every option.\n\n{_commands()}\n\n"
            f"## Exit codes\n\nErrors of the API have the same names as `code`.\n\n{_exit_codes()}\n{_OTHER_CODES}"
        ),
        REFERENCE / "settings.md": (
            f"# Settings of data skipping\n\n{generated}\n\n"
            f"Each begins with `spark.penstock.skipping.`; defaults are in parentheses.\n\n{_settings()}\n"
        ),
    }


def main() -> None:
    for path, text in pages().items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
