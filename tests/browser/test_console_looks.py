"""Every view of the console is drawn, readable and accessible, and loads nothing from elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.browser import Browser, Page
from tests.support.console import fake_service, world
from tests.support.console.fake_service import TOKEN, FakeService
from tests.support.console.walking import ALL, PLACES, goes, shows

POOR_CONTRAST = (Path(fake_service.__file__).parent / "poor_contrast.js").read_text(encoding="utf-8")
MADE_SCRIPT = """new Promise((done) => setTimeout(() => {
  try { done(new Function("return 1")()); } catch (error) { done(error.name); }
}))"""


def test_every_place_is_drawn_without_an_error_and_asks_nobody_else(page: Page, service: FakeService) -> None:
    for place in PLACES:
        goes(page, place)
        page.settled(stream="/v1/changes")
        assert page.evaluate("document.querySelector('.view > .problem')?.textContent") is None, place
    assert page.problems == []
    assert [address for address in page.requested if not address.startswith((service.url, "about:"))] == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_can_be_read_in_light_and_dark(browser: Browser, service: FakeService, dark: bool) -> None:
    page = browser.open(f"{service.url}#token={TOKEN}", dark=dark)
    page.until("document.querySelectorAll('.applications tbody tr').length > 5")
    for place in PLACES:
        goes(page, place)
        assert page.evaluate(POOR_CONTRAST) == [], place
    page.close()


def test_a_phone_scrolls_every_place_in_one_direction_only(page: Page) -> None:
    page.resize(390, 844)
    for place in PLACES:
        goes(page, place)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, place


def test_a_phone_shows_lists_whole(page: Page) -> None:
    page.resize(390, 844)
    for place in ("applications", "queue", "tables", "lab", "tokens", f"application/{ALL['tpcds-q72']}/events"):
        goes(page, place)
        page.until("document.querySelector('.table tbody tr') !== null")
        wider = "[...document.querySelectorAll('.table')].filter((list) => list.scrollWidth > list.clientWidth).length"
        assert page.evaluate(wider) == 0, place


def test_names_out_of_the_records_are_text_and_nothing_else(page: Page) -> None:
    shows(page, world.EVIL)
    goes(page, "tables/tpcds.store_sales")
    page.press("p")
    shows(page, world.EVIL)
    goes(page, f"application/{ALL['churn-model']}/logs")
    shows(page, world.EVIL)
    assert page.evaluate("document.querySelector('main img')") is None
    assert page.evaluate("document.head.innerHTML.includes('onerror')") is False


def test_the_policy_would_stop_markup_and_script_even_where_the_console_erred(page: Page) -> None:
    with pytest.raises(RuntimeError, match="TrustedHTML"):
        page.evaluate("document.body.innerHTML = '<b>x</b>'")
    assert page.evaluate(MADE_SCRIPT) == "EvalError"


def test_everything_that_can_be_pressed_has_a_name_and_every_field_a_label(page: Page) -> None:
    page.call("Accessibility.enable")
    for place in [*PLACES, "run"]:
        goes(page, place)
        nodes = page.call("Accessibility.getFullAXTree")["nodes"]
        roles = (
            "button",
            "link",
            "textbox",
            "searchbox",
            "combobox",
            "spinbutton",
            "tab",
            "table",
            "region",
            "checkbox",
        )
        unnamed = [
            node["role"]["value"]
            for node in nodes
            if not node.get("ignored")
            and node.get("role", {}).get("value") in roles[:-2]
            and not node.get("name", {}).get("value")
        ]
        assert [role for role in unnamed if role != "table"] == [], place


def test_colours_can_be_chosen(page: Page) -> None:
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    assert page.evaluate(paper) == "rgb(255, 255, 255)"
    for _ in range(2):
        page.evaluate(
            "[...document.querySelectorAll('nav button')].find((one) => one.textContent.startsWith('Colours')).click()"
        )
    assert page.evaluate(paper) == "rgb(16, 23, 30)"
    page.evaluate("localStorage.clear()")
