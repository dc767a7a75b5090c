"""Every price says where it is from, and a mistake in a price file is named with its line and key."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import prices
from penstock.errors import InvalidInput
from penstock.prices import Prices


def read(tmp_path: Path, text: str) -> Prices:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return prices.read_prices(path)


def test_every_packaged_price_has_a_source() -> None:
    packaged = prices.read_prices()
    assert packaged.currency == "USD"
    assert set(packaged.media) == {"hdd", "qlc", "tlc"}
    for key, found in packaged.sources.items():
        assert len(found.source) > 5, key


def test_a_file_of_ones_own_need_hold_only_what_differs(tmp_path: Path) -> None:
    mine = read(tmp_path, "currency: EUR\npower:\n  price_per_kwh: 0.30\n")
    packaged = prices.read_prices()
    assert mine.currency == "EUR"
    assert mine.power.price_per_kwh == 0.3
    assert mine.power.pue == packaged.power.pue
    assert mine.compute == packaged.compute
    assert mine.sources["power.price_per_kwh"].source.endswith("mine.yaml")


def test_a_medium_of_ones_own(tmp_path: Path) -> None:
    text = """\
media:
  optane:
    price_per_tb: {value: 900, source: an offer}
    tb_per_drive: 0.8
    watts_per_drive: 14
    replaced_per_year: 0.005
"""
    mine = read(tmp_path, text)
    assert mine.media["optane"].title == "optane"
    assert mine.sources["media.optane.price_per_tb"].source == "an offer"
    assert set(mine.media) == {"hdd", "qlc", "tlc", "optane"}
    assert read(tmp_path, text.replace("optane", "optane.2")).media["optane.2"].price_per_tb == 900


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("compute:\n  price_per_core: -3", 2, "compute.price_per_core is -3"),
        ("compute:\n  price_per_cor: 3", 2, "compute.price_per_cor is not known"),
        ("\npower:\n  pue: cheap", 3, "power.pue is not a number but 'cheap'"),
        ("power:\n  pue: 0.9", 2, "power.pue is 0.9"),
        ("power:\n  pue: true", 2, "power.pue is not a number"),
        ("power:\n  price_per_kwh: .nan", 2, "power.price_per_kwh is nan"),
        ("power:\n  price_per_kwh: {source: x}", 2, "power.price_per_kwh has no value"),
        ("power:\n  price_per_kwh: {value: 1, sauce: x}", 2, "power.price_per_kwh.sauce is not known"),
        ("storage:\n  fill_share: 1.5", 2, "storage.fill_share is 1.5"),
        ("storage:\n  drives_per_node: 0", 2, "storage.drives_per_node must be above 0"),
        ("disks: 3", 1, "disks is not known"),
        ("compute: 4", 1, "compute is not a mapping"),
        ("- 1", 1, "the file is not a mapping"),
        ("media:\n  tape:\n    price_per_tb: 4", 1, "the file lacks media.tape.tb_per_drive"),
        ("power:\n  pue: 1.2\n  pue: 1.3", 3, "power.pue is already on line 2"),
        ("power: [", 1, "this is not YAML"),
        ("date: 2026-13-45", 1, "date is not a valid value"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_key(tmp_path: Path, text: str, line: int, says: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        read(tmp_path, text)
    assert f"mine.yaml, line {line}: {says}" in str(raised.value)


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        prices.read_prices(tmp_path / "none.yaml")


@given(text=st.text(alphabet="ab:-{}[]# \n\t'\"&*!%@|>0123.", max_size=60))
def test_no_text_makes_a_stack_trace(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "prices.yaml"
    path.write_text(text, encoding="utf-8")
    try:
        prices.read_prices(path)
    except InvalidInput as error:
        assert str(path) in str(error)
