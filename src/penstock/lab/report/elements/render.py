"""Documents and their rendering.

A document has a headline, key figures, and sections of plots and tables. As HTML it is one page that contains style,
script, plots and the plot library. In Markdown the summary of a plot stands for the plot.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

import penstock
from penstock import units
from penstock.errors import InvalidInput
from penstock.lab.analysis import doubts
from penstock.lab.analysis.doubts import Doubt
from penstock.lab.analysis.verdicts import Spread
from penstock.lab.records import Description
from penstock.lab.workloads import registry


@dataclass(frozen=True)
class Plot:
    """`figure` is a Plotly figure as plain data; its colours may be variables of the style sheet: `var(--series-1)`.

    `summary` describes the plot in words, for screen readers and for Markdown.
    """

    name: str
    figure: Mapping[str, Any]
    summary: str
    height: int = 320
    wide: bool = False
    """True where a phone shows it at a readable width and lets the reader scroll sideways."""


@dataclass(frozen=True)
class Table:
    """`numeric` are the columns that are aligned right. A cell that starts with ✓ or ✗ is coloured."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: frozenset[int] = frozenset()
    folded: str = ""
    """The line under which the table is folded; an empty one leaves the table open."""

    def filled(self) -> Table:
        """Return the table without its empty columns."""
        filled = [index for index in range(len(self.columns)) if any(row[index] for row in self.rows)]
        return replace(
            self,
            columns=[self.columns[index] for index in filled],
            rows=[[row[index] for index in filled] for row in self.rows],
            numeric=frozenset(place for place, index in enumerate(filled) if index in self.numeric),
        )


@dataclass(frozen=True)
class Command:
    text: str


@dataclass(frozen=True)
class Paragraph:
    """Sentences under the line `folded`."""

    text: str
    folded: str


Part = Plot | Table | Command | Paragraph


@dataclass(frozen=True)
class Section:
    """A terminal shows the tables of `brief` sections at the end of a run, without their plots."""

    title: str
    note: str = ""
    parts: Sequence[Part] = ()
    brief: bool = False


@dataclass(frozen=True)
class KeyFigure:
    label: str
    value: str
    detail: str = ""


@dataclass(frozen=True)
class Document:
    """`result` is the sentence of the headline; the kinds of all doubts precede it."""

    kicker: str
    result: str
    doubts: Sequence[Doubt]
    key_figures: Sequence[KeyFigure]
    sections: Sequence[Section]
    data: Mapping[str, Any] = field(default_factory=dict)
    """The numbers of the report, for JSON."""

    @property
    def headline(self) -> str:
        return f"{doubts.lead(self.doubts)}{self.result}"

    @property
    def good(self) -> bool:
        return not self.doubts

    @property
    def wrong(self) -> bool:
        """True where figures are not valid; a page that is neither wrong nor good has cautions."""
        return not doubts.valid(self.doubts)


def terminal_tables(document: Document) -> list[Table]:
    """The tables for the terminal; the page has all."""
    return [part for section in document.sections if section.brief for part in section.parts if isinstance(part, Table)]


def render_html(document: Document) -> str:
    plots = {
        part.name: part.figure for section in document.sections for part in section.parts if isinstance(part, Plot)
    }
    environment = jinja2.Environment(autoescape=True, trim_blocks=False)
    environment.filters["unbroken"] = _unbroken
    environment.filters["capitalised"] = units.capitalised
    return environment.from_string(_resource("page.html.j2")).render(
        document=document,
        kind=lambda part: type(part).__name__,
        style=Markup(_style()),  # noqa: S704 - our own files
        script=Markup(_resource("page.js")),  # noqa: S704 - our own file
        plotly=Markup(_plotly()) if plots else "",  # noqa: S704 - the library's own file
        plots=_inline_json(plots),
        version=penstock.__version__,
    )


def _unbroken(text: str) -> str:
    """Prevent line breaks between a number and its unit, and after a times sign."""
    return re.sub(r"(?<=\d) (?=[^\W\d])|(?<=\bmin) (?=\d)|(?<=×) ", "\u00a0", text)


def _style() -> str:
    return resources.files("penstock").joinpath("colours.css").read_text(encoding="utf-8") + _resource("page.css")


def _resource(name: str) -> str:
    return resources.files("penstock.lab.report.elements").joinpath(name).read_text(encoding="utf-8")


def _plotly() -> str:
    return resources.files("plotly").joinpath("package_data").joinpath("plotly.min.js").read_text(encoding="utf-8")


def _inline_json(value: Mapping[str, Any]) -> Markup:
    """Escape the JSON so that no text in it can end its script element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("\u2028", "\\u2028")):
        text = text.replace(character, escape)
    return Markup(text)  # noqa: S704 - escaped above


def render_markdown(document: Document) -> str:
    lines = [f"# {document.headline}", "", document.kicker, ""]
    if document.doubts:
        lines += [
            f"- {'✗' if doubt.wrong else '⚠'} **{units.capitalised(doubt.kind)}.** {doubt.sentence}"
            for doubt in document.doubts
        ]
        lines.append("")
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
    elif isinstance(part, Paragraph):
        yield f"**{part.folded}.** {part.text}"
    else:
        yield _row(part.columns)
        yield _row(["--:" if index in part.numeric else "---" for index in range(len(part.columns))])
        yield from (_row(row) for row in part.rows)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", "<br>") for cell in cells) + " |"


def range_text(found: Spread, write: Callable[[float], str] = units.digits) -> str:
    """`9.81–10.20`; empty for a single sample."""
    return f"{write(found.low)}–{write(found.high)}" if found.count > 1 else ""


def workload_title(description: Description) -> str:
    """The title of the workload, with its scale factor if any. An unknown workload keeps its recorded name."""
    scale = f", scale {units.number(description.scale)}" if description.scale else ""
    return f"{_workload(description.workload)}{scale}"


def _workload(name: str) -> str:
    if name == "startup":
        return "start-up"
    try:
        return registry.suite_class(name).title
    except InvalidInput:
        return name
