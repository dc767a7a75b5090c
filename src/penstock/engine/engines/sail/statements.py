"""The statements of a script in Spark's SQL, and what Sail may do with each. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    # In a raw text, which an r begins, a backslash escapes nothing. A word is one token, so that no r at its end does.
    r"""(?P<raw>[rR](?:'[^']*'? | "[^"]*"?))
    | (?P<quoted>'(?:[^'\\]|\\.)*'? | "(?:[^"\\]|\\.)*"? | `[^`]*`?) | (?P<blank>\s+ | --[^\n]*) | (?P<comment>/\*)
    | (?P<end>;) | (?P<code>\w+ | .)""",
    re.VERBOSE | re.DOTALL,
)
_BRACKET = re.compile(r"/\*|\*/")


@dataclass(frozen=True)
class _Token:
    kind: str
    start: int
    end: int
    text: str


def _tokens(script: str) -> Iterator[_Token]:
    position = 0
    while found := _TOKEN.match(script, position):
        position = _comment_end(script, found.end()) if found.lastgroup == "comment" else found.end()
        yield _Token(found.lastgroup or "", found.start(), position, script[found.start() : position])


def _comment_end(script: str, position: int) -> int:
    """The end of a bracketed comment; Spark's nest."""
    depth = 1
    for bracket in _BRACKET.finditer(script, position):
        depth += 1 if bracket[0] == "/*" else -1
        if depth == 0:
            return bracket.end()
    return len(script)


def split(script: str) -> list[str]:
    """Cut a script as `io.penstock.sql.StatementSplitter` does: at each `;` that is not inside quotes or a comment.

    Parts that hold nothing but blanks and comments are left out.
    """
    found, start, has_code = [], 0, False
    for token in (*_tokens(script), _Token("end", len(script), len(script), "")):
        if token.kind == "end":
            if has_code:
                found.append(script[start : token.start].strip())
            start, has_code = token.end, False
        has_code |= token.kind in ("raw", "quoted", "code")
    return found


# Sail knows the longer form alone.
_USE = re.compile(r"\A\s*use\s+(?!(?:database|schema|namespace|catalog)\s)", re.IGNORECASE)


def in_sails_words(statement: str) -> str:
    return _USE.sub("USE DATABASE ", statement, count=1)


_SET = re.compile(r"\A\s*set\s+([\w.]+)\s*(?:=\s*(.*?)\s*)?\Z", re.IGNORECASE | re.DOTALL)


def setting(statement: str) -> tuple[str, str | None] | None:
    """The name and the value of `SET name = value`, which Sail does not know as a statement; None for any other."""
    found = _SET.match(statement)
    return None if found is None else (found[1], found[2])


_READING = re.compile(
    r"[\s(]*(?:select|with|values|from|table|explain|show|describe|desc|use|set|reset"
    r"|create\s+(?:or\s+replace\s+)?(?:global\s+)?temp(?:orary)?\s+view|drop\s+view)\b",
    re.IGNORECASE,
)
_WRITING = re.compile(
    r"\b(?:insert\s+(?:into|overwrite)|merge\s+(?:with\s+schema\s+evolution\s+)?into|delete\s+from"
    r"|update\s+\S+\s+(?:(?:as\s+)?\w+\s+)?set)\b",
    re.IGNORECASE,
)
_QUOTED = "quoted"


def writes(statement: str) -> bool:
    """Return whether the statement may change the catalog, or write files.

    Sail writes a table's files before it asks the catalog, whose refusal would leave them behind.
    """
    code = "".join(
        {"blank": " ", "comment": " ", "raw": _QUOTED, "quoted": _QUOTED}.get(one.kind, one.text)
        for one in _tokens(statement)
    )
    return _READING.match(code) is None or _WRITING.search(code) is not None


def code_of(statement: str) -> str:
    """The statement without comments and without the content of texts, which stand in single or double quotes."""
    blank = {"blank": " ", "comment": " "}
    return "".join(
        f"{one.text[0]}''" if one.kind == "raw" else "''" if one.text[0] in "'\"" else blank.get(one.kind, one.text)
        for one in _tokens(statement)
    )
