"""A document as one HTML page that needs nothing else: style, script, plots and the plot library are all inside."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

import penstock
from penstock.lab.report.document import Document, Plot


def render(document: Document) -> str:
    plots = {
        part.name: part.figure for section in document.sections for part in section.parts if isinstance(part, Plot)
    }
    environment = jinja2.Environment(autoescape=True, trim_blocks=False)
    environment.filters["unbroken"] = _unbroken
    return environment.from_string(_own("page.html.j2")).render(
        document=document,
        kind=lambda part: type(part).__name__,
        style=Markup(_style()),  # noqa: S704 - our own files
        script=Markup(_own("page.js")),  # noqa: S704 - our own file
        plotly=Markup(_plotly()) if plots else "",  # noqa: S704 - the library's own file
        plots=_inline_json(plots),
        version=penstock.__version__,
    )


def _unbroken(text: str) -> str:
    """No line ends between a number and its unit, nor behind a times sign."""
    return re.sub(r"(?<=\d) (?=[^\W\d])|(?<=\bmin) (?=\d)|(?<=×) ", "\u00a0", text)


def _style() -> str:
    return resources.files("penstock").joinpath("colours.css").read_text(encoding="utf-8") + _own("page.css")


def _own(name: str) -> str:
    return resources.files("penstock.lab.report").joinpath(name).read_text(encoding="utf-8")


def _plotly() -> str:
    return resources.files("plotly").joinpath("package_data").joinpath("plotly.min.js").read_text(encoding="utf-8")


def _inline_json(value: Mapping[str, Any]) -> Markup:
    """JSON that cannot end the script element it stands in, whatever texts are in it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("\u2028", "\\u2028")):
        text = text.replace(character, escape)
    return Markup(text)  # noqa: S704 - escaped above
