"""Java properties files are read back as written, in any alphabet."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.formats import as_properties

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


def read_by_the_rules(text: str) -> dict[str, str]:
    """Parse a file by the rules of java.util.Properties.load, with one pair per line."""
    found = {}
    for line in text.splitlines():
        units: list[tuple[str, bool]] = []
        position = 0
        while position < len(line):
            letter = line[position]
            if letter != "\\":
                units.append((letter, False))
                position += 1
            elif line[position + 1] == "u":
                units.append((chr(int(line[position + 2 : position + 6], 16)), True))
                position += 6
            else:
                escaped = line[position + 1]
                units.append(({"n": "\n", "r": "\r", "t": "\t", "f": "\f"}.get(escaped, escaped), True))
                position += 2
        at = next(i for i, (letter, escaped) in enumerate(units) if letter in "=: \t\f" and not escaped)
        value = units[at + 1 :]
        while value and value[0][0] in " \t\f" and not value[0][1]:
            value = value[1:]
        key, rest = ("".join(letter for letter, _ in part) for part in (units[:at], value))
        found[join(key)] = join(rest)
    return found


def join(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16")


@given(st.dictionaries(texts, st.text(st.characters(exclude_categories=["Cs"]))))
def test_every_key_and_value_survives(settings: dict[str, str]) -> None:
    text = as_properties(settings)
    assert text.isascii()
    assert read_by_the_rules(text) == settings
