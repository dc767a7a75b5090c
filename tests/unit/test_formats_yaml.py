"""A user's YAML file is read with the position of each value."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from penstock import formats
from penstock.errors import InvalidInput

TEXT = """\
workload: terasort
arms:
  - size: 1g
  - size: 2g
"""


def test_everything_knows_its_line_and_its_key() -> None:
    root = formats.parse(TEXT, "lab.yaml")
    second = root.mapping()["arms"].value[1].mapping()["size"]
    assert (second.value, second.line, second.key) == ("2g", 4, "arms[1].size")
    with pytest.raises(InvalidInput, match=r"lab.yaml, line 4: arms\[1\].size is too large") as raised:
        second.fail("is too large", fix="use 1g")
    assert raised.value.fix == "use 1g"


def test_a_key_given_twice_is_refused_not_overwritten() -> None:
    with pytest.raises(InvalidInput, match="line 2: a is already on line 1"):
        formats.parse("a: 1\na: 2\n", "x.yaml")


def test_no_yaml_is_said_with_its_line() -> None:
    with pytest.raises(InvalidInput, match=r"x.yaml, line 2: this is not YAML"):
        formats.parse("a: 1\n b: 2\n", "x.yaml")


def test_an_empty_file_holds_nothing() -> None:
    assert formats.parse("# nothing\n", "x.yaml").mapping() == {}


def test_tags_make_no_objects() -> None:
    with pytest.raises(InvalidInput, match="not YAML"):
        formats.parse("a: !!python/name:os.system\n", "x.yaml")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=8), values, max_size=4))
def test_plain_is_what_yaml_itself_reads(value: dict[str, object]) -> None:
    text = yaml.safe_dump(value, allow_unicode=True)
    assert formats.parse(text, "x.yaml").plain() == yaml.safe_load(text)


def test_a_small_file_cannot_grow_when_it_is_read() -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40))]
    with pytest.raises(InvalidInput, match="line 2: this is not YAML") as raised:
        formats.parse("\n".join(lines), "x.yaml")
    assert "aliases" in raised.value.why


def test_nesting_without_end_is_refused_and_not_followed() -> None:
    with pytest.raises(InvalidInput) as raised:
        formats.parse("[" * 100_000, "x.yaml")
    assert "deep" in raised.value.why


def test_a_file_that_cannot_be_one_of_settings_is_refused_unread(tmp_path: Path) -> None:
    large, binary = tmp_path / "large", tmp_path / "binary"
    large.write_bytes(b"#" * (1 << 20))
    binary.write_bytes(b"a: \xff\xfe")
    for path, problem in [(large, "too large"), (binary, "not text"), (tmp_path / "none", "cannot be read")]:
        with pytest.raises(InvalidInput, match=problem) as raised:
            formats.read(path, fix="see the example")
        assert raised.value.fix == "see the example"


def test_a_complaint_about_a_block_points_at_its_key() -> None:
    root = formats.parse("first: 1\nblock:\n\n  inner: 2\n", "x.yaml")
    assert root.mapping()["block"].line == 2
