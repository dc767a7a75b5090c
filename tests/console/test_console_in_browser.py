"""The console in a real browser, over a service whose answers are made up."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "lab")]

import places
import world
from browser import Browser, Page
from fake_service import TOKEN, FakeService, serving

pytestmark = pytest.mark.integration

ALL = {item["name"]: item["id"] for item in world.applications()}
PLACES = [
    "applications",
    f"application/{ALL['nightly-ingest']}",
    f"application/{ALL['churn-model']}",
    f"application/{ALL['churn-model']}/logs",
    f"application/{ALL['tpcds-q72']}/events",
    f"application/{ALL['tpcds-q72']}/request",
    f"run?from={ALL['tpcds-q72']}",
    "queue",
    "tables",
    "tables/tpcds.store_sales",
    "lake",
    "lab",
    "sessions",
    "instances",
    "tokens",
]
SHOWN = "document.querySelector('.view h1')?.textContent"
ROWS = "[...document.querySelectorAll('.applications tbody tr .name > a')].map((link) => link.textContent)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium on this machine")
    with Browser.started(found, tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture
def service() -> Iterator[FakeService]:
    with serving() as fake:
        yield fake


@pytest.fixture
def page(browser: Browser, service: FakeService) -> Iterator[Page]:
    """Signed in, with all applications shown."""
    opened = browser.open(f"{service.url}#token={TOKEN}")
    opened.until(
        "document.querySelectorAll('.applications tbody tr').length > 5 && document.querySelector('.link-state.on') !== null"
    )
    yield opened
    opened.close()


def goes(page: Page, place: str) -> None:
    page.evaluate(f"location.hash = '/{place}'")
    name = place.split("/")[0].split("?")[0]
    page.until(f"document.querySelector('.view.{name} h1') && document.querySelector('.view').textContent.length > 40")


def shows(page: Page, text: str) -> None:
    page.until(f"document.body.innerText.includes({text!r})")


def test_every_place_is_drawn_without_an_error_and_asks_nobody_else(page: Page, service: FakeService) -> None:
    for place in PLACES:
        goes(page, place)
        page.evaluate("new Promise((done) => setTimeout(done, 150))")
        assert page.evaluate("document.querySelector('.view > .trouble')?.textContent") is None, place
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
    with pytest.raises(RuntimeError, match=r"unsafe-eval|TrustedScript|EvalError"):
        page.evaluate("new Function('return 1')()")


def test_a_token_is_asked_for_and_a_wrong_one_is_told(browser: Browser, service: FakeService) -> None:
    page = browser.open(service.url)
    page.until("document.activeElement?.name === 'token'")
    page.write("penstock_1_wrong")
    page.press("Enter")
    shows(page, "This needs a token")
    page.evaluate("document.querySelector('[name=token]').select()")
    page.write(TOKEN)
    page.press("Enter")
    page.until("document.querySelectorAll('.applications tbody tr').length > 5")
    assert page.evaluate("localStorage.length") == 0
    page.close()


def test_a_token_from_a_link_is_not_left_in_the_address(page: Page) -> None:
    assert TOKEN not in page.evaluate("location.href + JSON.stringify(history.state)")


def test_the_list_follows_what_happens(page: Page, service: FakeService) -> None:
    state = f"document.querySelector('[data-key=\"{ALL['sessionize-clicks']}\"] .badge').textContent"
    assert page.evaluate(state) == "starting"
    service.change(ALL["sessionize-clicks"], state="running")
    page.until(f"{state} === 'running'")
    service.tell("progress", {"id": ALL["sessionize-clicks"], **world.progress(150)})
    shows(page, "151 of 204 tasks")
    made = world.application(77, "brand-new", "accepted", age=0)
    service.applications[made["id"]] = made
    service.tell("application", made)
    page.until(f"{ROWS}[0] === 'brand-new'")


def test_a_filter_leaves_only_what_fits_and_keeps_out_what_does_not(page: Page, service: FakeService) -> None:
    page.evaluate("document.querySelector('[data-filter=failed]').click()")
    page.until(f"{ROWS}.join() === 'churn-model'")
    service.change(ALL["sessionize-clicks"], state="running")
    service.change(ALL["nightly-ingest"], state="failed", ended_at=world.ago(0))
    page.until(f"{ROWS}.length === 2")
    assert "sessionize-clicks" not in page.evaluate(ROWS)


def test_the_list_is_walked_by_keys_alone(page: Page) -> None:
    page.press("j", "j", "k", "Enter")
    page.until(f"{SHOWN} === 'sessionize-clicks'")
    page.press("Escape")
    page.until(f"{SHOWN} === 'Applications'")
    page.press("g", "t")
    page.until(f"{SHOWN} === 'Tables'")
    page.press("?")
    shows(page, "find an application, a table, a place")
    page.press("Escape")
    page.press("/")
    page.write("churn")
    shows(page, "churn-model")
    page.until("document.querySelectorAll('.palette li').length === 1")
    page.press("Enter")
    page.until(f"{SHOWN} === 'churn-model'")


def test_keys_are_not_taken_from_who_is_typing(page: Page) -> None:
    page.evaluate("document.querySelector('.filters input').focus()")
    for key in "nj?":
        page.press(key)
    assert page.evaluate("document.querySelector('.filters input').value") == "nj?"
    assert page.evaluate(SHOWN) == "Applications"


def test_a_submission_says_what_was_filled_in_and_cannot_happen_twice(page: Page, service: FakeService) -> None:
    goes(page, "run")
    values = {
        "application": "s3a://lake/jobs/report.py",
        "arguments": "--day\n2026-11-21",
        "executors": "2",
        "executor_memory": "8g",
        "settings": "spark.sql.ansi.enabled=true",
        "time_limit": "2h",
        "tags": "nightly etl",
    }
    for name, value in values.items():
        page.evaluate(f"(document.querySelector('[name={name}]').value = {value!r}, 0)")
    page.evaluate("document.querySelector('.run-form').dispatchEvent(new Event('input'))")
    shows(page, "--executor-memory 8g")
    page.evaluate(
        "(document.querySelector('.run-form').requestSubmit(), document.querySelector('.run-form').requestSubmit())"
    )
    page.until(f"{SHOWN} === 'made-here'")
    keys = {headers["idempotency-key"] for _, path, _, headers in service.asked if path == "applications"}
    assert len(keys) == 1
    _, _, body, _ = service.asked[0]
    assert body == {
        "application": "s3a://lake/jobs/report.py",
        "arguments": ["--day", "2026-11-21"],
        "profile": "default",
        "instance": "default",
        "size": {"executors": 2, "executor": {"memory": "8g"}},
        "settings": {"spark.sql.ansi.enabled": "true"},
        "time_limit_seconds": 7200,
        "tags": ["nightly", "etl"],
    }


def test_what_was_run_before_is_changed_and_run(page: Page) -> None:
    goes(page, f"application/{ALL['tpcds-q72']}")
    page.press("e")
    page.until("document.querySelector('[name=application]')?.value === 's3a://lake/jobs/tpcds-q72.py'")
    assert page.evaluate("document.querySelector('[name=executor_memory]').value") == "8g"
    assert page.evaluate("document.querySelector('[name=settings]').value") == "spark.sql.shuffle.partitions=64"


def test_stopping_is_asked_for_twice(page: Page, service: FakeService) -> None:
    goes(page, f"application/{ALL['nightly-ingest']}")
    page.press("x")
    shows(page, "Stop nightly-ingest?")
    assert service.asked == []
    page.evaluate("document.querySelector('dialog .danger').click()")
    page.until("document.querySelector('dialog') === null")
    assert [(method, path) for method, path, _, _ in service.asked] == [
        ("POST", f"applications/{ALL['nightly-ingest']}/stop")
    ]


def test_a_log_is_shown_from_its_end_searched_and_marked(page: Page) -> None:
    goes(page, f"application/{ALL['churn-model']}/logs")
    shows(page, "OutOfMemoryError")
    page.until("(log => log.scrollHeight - log.scrollTop - log.clientHeight < 5)(document.querySelector('.log'))")
    assert page.evaluate("document.querySelector('.log .error').textContent").startswith("22:11:03 ERROR")
    page.evaluate("document.querySelector('[aria-label=\"Only lines with\"]').focus()")
    page.write("blockmanager")
    page.until("[...document.querySelectorAll('.log li')].filter((line) => !line.hidden).length === 1")


def test_a_new_token_is_shown_once(page: Page, service: FakeService) -> None:
    goes(page, "tokens")
    page.press("c")
    page.until("document.querySelector('dialog [name=name]')")
    page.evaluate("document.querySelector('dialog [name=name]').focus()")
    page.write("nightly jobs")
    page.press("Enter")
    shows(page, "penstock_9_secret")
    page.evaluate("document.querySelector('dialog:last-of-type form').requestSubmit()")
    page.until("document.querySelector('dialog') === null")
    assert "penstock_9_secret" not in page.evaluate("document.documentElement.outerHTML")
    _, path, body, _ = service.asked[0]
    assert (path, body["name"], body["scopes"], body["instances"]) == ("tokens", "nightly jobs", ["read"], None)


def test_who_may_only_read_is_offered_nothing_else(browser: Browser, service: FakeService) -> None:
    service.scopes = ["read"]
    page = browser.open(f"{service.url}#token={TOKEN}")
    page.until("document.querySelectorAll('.applications tbody tr').length > 5")
    assert page.evaluate("document.querySelector('.primary')") is None
    assert (
        page.evaluate("[...document.querySelectorAll('nav a')].some((link) => link.textContent === 'Access')") is False
    )
    goes(page, f"application/{ALL['nightly-ingest']}")
    assert page.evaluate("[...document.querySelectorAll('.head button')].map((one) => one.firstChild.textContent)") == [
        "Spark UI"
    ]
    page.close()


def test_a_service_in_trouble_says_what_and_comes_back(page: Page, service: FakeService) -> None:
    service.down = True
    page.evaluate("location.hash = '/queue'")
    shows(page, "The database does not answer")
    shows(page, "wait a moment")
    service.down = False
    goes(page, "tables")
    shows(page, "store_sales")


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


def test_counts_of_the_made_up_world_are_those_shown(page: Page) -> None:
    goes(page, "queue")
    shows(page, "feature-store-refresh")
    assert page.evaluate("document.querySelectorAll('.queue tbody tr').length") == len(places.queue()["items"])


POOR_CONTRAST = """(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const pixel = (colours) => { canvas.clearRect(0, 0, 1, 1); for (const one of colours) { canvas.fillStyle = one; canvas.fillRect(0, 0, 1, 1); } return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = (rgb) => { const [r, g, b] = rgb.map((v) => v / 255).map((v) => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
  const behind = (node) => { const found = []; for (let one = node; one; one = one.parentElement) found.unshift(getComputedStyle(one).backgroundColor); return found; };
  const poor = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.checkVisibility({visibilityProperty: true}) || node.disabled || node.closest(".skip, .visually-hidden")) continue;
    const back = behind(node);
    const a = light(pixel(back).slice(0, 3)), b = light(pixel([...back, getComputedStyle(node).color]).slice(0, 3));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) poor.push(`${ratio.toFixed(2)} ${node.tagName}.${node.className} ${node.textContent.slice(0, 30)}`);
  }
  return [...new Set(poor)].slice(0, 8);
})()"""
