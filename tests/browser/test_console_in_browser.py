"""Users' tasks in the console, in a real browser over a service with canned answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fastapi.responses import StreamingResponse

from tests.support.browser import Browser, Page
from tests.support.console import world
from tests.support.console.fake_service import TOKEN, FakeService
from tests.support.console.walking import ALL, SHOWN, goes, shows

ROWS = "[...document.querySelectorAll('.applications tbody tr .name > a')].map((link) => link.textContent)"


def test_sign_in_asks_for_a_token_and_reports_a_wrong_one(browser: Browser, service: FakeService) -> None:
    page = browser.open(service.url)
    page.until("document.activeElement?.name === 'token'")
    page.write("penstock_1_wrong")
    page.press("Enter")
    shows(page, "This needs a token")
    page.evaluate("document.querySelector('[name=token]').select()")
    page.write(TOKEN)
    page.press("Enter")
    page.until("document.querySelectorAll('.applications tbody tr').length > 5")
    # Only a digest outlives the tab.
    assert TOKEN not in page.evaluate("JSON.stringify(localStorage)")
    page.close()


def test_a_token_from_a_link_is_not_left_in_the_address(page: Page) -> None:
    assert TOKEN not in page.evaluate("location.href + JSON.stringify(history.state)")


def test_the_list_follows_what_happens(page: Page, service: FakeService) -> None:
    state = f"document.querySelector('[data-key=\"{ALL['sessionize-clicks']}\"] .badge').textContent"
    assert page.evaluate(state) == "starting"
    service.change(ALL["sessionize-clicks"], state="running")
    page.until(f"{state} === 'running'")
    service.send_event("progress", {"id": ALL["sessionize-clicks"], **world.progress(150)})
    shows(page, "151 of 204 tasks")
    made = world.application(77, "brand-new", "accepted", age=0)
    service.applications[made["id"]] = made
    service.send_event("application", made)
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
    page.until("document.querySelectorAll('.applications tbody tr').length > 5")
    page.press("g", "t")
    page.until(f"{SHOWN} === 'Tables'")
    page.press("?")
    shows(page, "find an application, a table or a view")
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
    page.evaluate("document.querySelector('.run-form').dispatchEvent(new Event('input', { bubbles: true }))")
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
    page.until("document.querySelectorAll('.log li').length > 100")
    assert page.evaluate("[...document.querySelectorAll('.chips button')].map((chip) => chip.textContent)") == [
        "driver.out",
        "driver.err",
        "driver.log",
        "executor-1.log",
        "executor-2.log",
    ]
    page.until("(log => log.scrollHeight - log.scrollTop - log.clientHeight < 5)(document.querySelector('.log'))")
    assert page.evaluate("document.querySelector('.log .error').textContent").startswith("22:11:03 ERROR")
    page.evaluate("document.querySelector('[aria-label=\"Only lines with\"]').focus()")
    page.write("blockmanager")
    page.until("[...document.querySelectorAll('.log li')].filter((line) => !line.hidden).length === 1")


def test_following_a_log_that_is_not_utf_8_repeats_and_skips_nothing_after_a_break(
    page: Page, service: FakeService
) -> None:
    """The break also falls in the middle of a character."""
    whole = b"first \xff\xfe line\nsecond \xe2\x82\xac line\nthird line\n"
    broken_at = whole.index(b"\x82")
    starts: list[int] = []

    def log(start: int) -> StreamingResponse:
        starts.append(start)

        async def content() -> AsyncIterator[bytes]:
            if len(starts) > 1:
                yield whole[start:]
                await asyncio.sleep(60)
            yield whole[:broken_at]
            await asyncio.sleep(0.2)
            raise ConnectionResetError

        return StreamingResponse(content(), headers={"Penstock-Log-Start": str(start)})

    service.log = log
    goes(page, f"application/{ALL['sessionize-clicks']}/logs")
    page.until("[...document.querySelectorAll('.log li')].some((line) => line.textContent === 'third line')")
    shown = page.evaluate("[...document.querySelectorAll('.log li')].map((line) => line.textContent)")
    assert shown == ["first \ufffd\ufffd line", "second € line", "third line"]
    assert starts == [0, broken_at]


def test_a_file_whose_name_has_a_space_is_brought_to_the_lake(page: Page, service: FakeService) -> None:
    goes(page, "run")
    page.until("document.querySelector('input[type=file]') !== null")
    page.evaluate(
        "(() => { const files = new DataTransfer(); files.items.add(new File(['print(1)'], 'my jöb.py'));"
        " const input = document.querySelector('input[type=file]'); input.files = files.files;"
        " input.dispatchEvent(new Event('change', { bubbles: true })); })()"
    )
    shows(page, "is in the lake")
    ((method, path, _, _),) = service.asked
    assert (method, path.rpartition("/")[2]) == ("PUT", "my_j_b.py")


def test_a_recent_fetch_is_not_counted_as_a_cache_hit(page: Page) -> None:
    goes(page, f"application/{ALL['churn-model']}")
    shows(page, "66 % of 21 GiB")


def test_a_new_token_is_shown_once(page: Page, service: FakeService) -> None:
    goes(page, "tokens")
    page.press("c")
    page.until("document.querySelector('dialog [name=name]') !== null")
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


def test_the_queue_says_who_waits_and_for_what(page: Page) -> None:
    goes(page, "queue")
    shows(page, "feature-store-refresh")
    shows(page, "8 cores are asked for, 3 are free")
    page.press("j", "Enter")
    page.until(f"{SHOWN} === 'feature-store-refresh'")


def test_a_link_does_not_replace_the_token_of_a_browser_unasked(page: Page, service: FakeService) -> None:
    keep = "sessionStorage.getItem('penstock.token')"
    page.evaluate("location.hash = '#token=of-a-stranger'; location.reload()")
    page.until("document.querySelector('dialog') !== null")
    assert page.evaluate("location.hash") == ""
    assert page.evaluate(keep) == TOKEN
    page.evaluate("document.querySelector('dialog .quiet').click()")
    page.until("document.querySelectorAll('.applications tbody tr').length > 5")
    assert page.evaluate(keep) == TOKEN


def test_a_new_tab_of_a_browser_asks_before_another_token_is_used(
    page: Page, browser: Browser, service: FakeService
) -> None:
    other = browser.open(f"{service.url}#token=of-a-stranger")
    other.until("document.querySelector('dialog') !== null")
    assert other.evaluate("sessionStorage.getItem('penstock.token')") is None
    other.close()


def test_a_link_signs_in_once(page: Page, browser: Browser, service: FakeService) -> None:
    again = browser.open(f"{service.url}#token={TOKEN}")
    again.until("document.querySelector('.sign-in') !== null")
    shows(again, "This link was used before")
    assert again.evaluate("sessionStorage.getItem('penstock.token')") is None
    again.close()
