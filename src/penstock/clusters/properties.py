"""Java properties files: what `java.util.Properties.load` reads back as exactly the given keys and values."""

from __future__ import annotations

from collections.abc import Mapping

_ESCAPES = {
    "\\": "\\\\",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\f": "\\f",
    "=": "\\=",
    ":": "\\:",
    "#": "\\#",
    "!": "\\!",
}


def as_properties(settings: Mapping[str, str]) -> str:
    """Pure ASCII, so that it does not matter which encoding the reader assumes."""
    return "".join(f"{_escaped(key, spaces=True)}={_escaped(value)}\n" for key, value in sorted(settings.items()))


def _escaped(text: str, *, spaces: bool = False) -> str:
    out = []
    for index, letter in enumerate(text):
        if letter == " " and (spaces or index == 0):
            out.append("\\ ")
        elif letter in _ESCAPES:
            out.append(_ESCAPES[letter])
        elif " " <= letter <= "~":
            out.append(letter)
        else:
            units = letter.encode("utf-16-be", "surrogatepass")
            out += [f"\\u{units[i] << 8 | units[i + 1]:04x}" for i in range(0, len(units), 2)]
    return "".join(out)
