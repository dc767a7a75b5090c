"""What a report says, before it has a form: a headline, key figures, sections of plots and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Plot:
    """`figure` is a Plotly figure as plain data; colours in it may be the style sheet's: `var(--series-1)`.

    `summary` says in words what the plot shows, for those who cannot see it and for the Markdown form.
    """

    name: str
    figure: Mapping[str, Any]
    summary: str
    height: int = 320
    wide: bool = False
    """True where a phone shows it at a readable width and lets the reader scroll sideways."""


@dataclass(frozen=True)
class Table:
    """`numeric` holds the columns that are aligned right. A cell that starts with ✓ or ✗ is coloured."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: frozenset[int] = frozenset()
    folded: str = ""
    """Where set, the table is folded away under this line."""

    def filled(self) -> Table:
        """Without the columns in which no row says anything."""
        kept = [index for index in range(len(self.columns)) if any(row[index] for row in self.rows)]
        return replace(
            self,
            columns=[self.columns[index] for index in kept],
            rows=[[row[index] for index in kept] for row in self.rows],
            numeric=frozenset(place for place, index in enumerate(kept) if index in self.numeric),
        )


@dataclass(frozen=True)
class Command:
    text: str


Part = Plot | Table | Command


@dataclass(frozen=True)
class Section:
    """`brief` sections are what a terminal shows at the end of a run: their tables, without the plots."""

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
    """`good` is False where an answer was wrong or work failed: the headline then says so first."""

    kicker: str
    headline: str
    good: bool
    key_figures: Sequence[KeyFigure]
    sections: Sequence[Section]
    data: Mapping[str, Any] = field(default_factory=dict)
    """The numbers behind it, for the JSON form."""


def brief(document: Document) -> list[Table]:
    """The tables that answer the question asked, for the terminal; the rest is in the page."""
    return [part for section in document.sections if section.brief for part in section.parts if isinstance(part, Table)]
