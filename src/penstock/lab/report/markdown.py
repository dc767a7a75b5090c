"""A document as Markdown; a plot is given in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.lab.report.document import Command, Document, Part, Plot, Section


def render(document: Document) -> str:
    lines = [f"# {document.headline}", "", document.kicker, ""]
    for figure in document.key_figures:
        detail = f" ({figure.detail})" if figure.detail else ""
        lines.append(f"- {figure.label}: **{figure.value}**{detail}")
    for section in document.sections:
        lines.extend(_section(section))
    return "\n".join(lines) + "\n"


def _section(section: Section) -> Iterator[str]:
    yield from ("", f"## {section.title}")
    if section.note:
        yield from ("", section.note)
    for part in section.parts:
        yield ""
        yield from _part(part)


def _part(part: Part) -> Iterator[str]:
    if isinstance(part, Plot):
        yield part.summary
    elif isinstance(part, Command):
        yield from ("```", part.text, "```")
    else:
        yield _row(part.columns)
        yield _row(["--:" if index in part.numeric else "---" for index in range(len(part.columns))])
        yield from (_row(row) for row in part.rows)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", "<br>") for cell in cells) + " |"
