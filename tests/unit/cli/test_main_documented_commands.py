"""The program understands every command that the documents tell people to type."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from penstock.cli.main import command

ROOT = Path(__file__).parents[3]
# What was measured, and why, is told with the commands of that day.
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md")), *sorted((ROOT / "examples").glob("*"))]

AFTER = re.compile(r"\s(?:#|\||&&|>|<|;)|  | \(")
"""The end of a command: a comment, another one, or the words that explain it."""
PATTERN = re.compile(r"[\[\]{}…|<>]|\.\.\.")
"""A placeholder for several commands, which is no command itself."""
NOT_UNDERSTOOD = ("UsageError", "NoSuchOption")
"""Typer keeps these classes to itself. An argument that is missing (`penstock run` in a sentence) is none of them."""


def commands(page: Path) -> Iterator[str]:
    in_code = False
    for line in page.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        if line.startswith("```"):
            in_code = not in_code
        elif in_code or line.startswith("#   "):
            yield from re.findall(r"^(?:#   |\$ |[A-Z_]+=\S+ )*(?:\.venv/bin/)?(penstock .+)", line)
        else:
            yield from re.findall(r"`(penstock [^`]+)`", line)


def complaint(words: Sequence[str]) -> str:
    """Empty where the words are understood as far as they go. Nothing is run."""
    found, context, name, rest = command(), None, words[0], list(words[1:])
    try:
        while hasattr(found, "resolve_command"):
            context = found.make_context(name, rest, parent=context)
            name, found, rest = found.resolve_command(context, [*context._protected_args, *context.args])
        found.make_context(name, rest, parent=context)
    except Exception as error:
        return str(error) if type(error).__name__ in NOT_UNDERSTOOD else ""
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_the_documents_are_understood(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    typed = [AFTER.split(line)[0] for line in commands(page)]
    wrong = {line: complaint(shlex.split(line)) for line in typed if not PATTERN.search(line)}
    assert {line: why for line, why in wrong.items() if why} == {}


@pytest.mark.parametrize("words", ["penstock lake check prod", "penstock lab none", "penstock up --never"])
def test_what_is_not_understood_is_found(words: str) -> None:
    assert complaint(words.split())
