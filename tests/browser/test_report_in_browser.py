"""Every kind of report renders in a real browser: without a network, in light and dark, on a phone and on paper."""

from __future__ import annotations

import contextlib
import itertools
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from penstock import prices as pricefile
from penstock.lab.analysis import cost
from penstock.lab.records import Run
from penstock.lab.report import cost as price_report
from penstock.lab.report import report as make
from tests.support import doubtful_runs
from tests.support.browser import Browser, Page
from tests.unit.lab import lab_runs, store_runs
from tests.unit.lab.report.test_report import run as tpcds_run
from tests.unit.lab.report.test_report import starts_run
from tests.unit.lab.report.test_resources import arm as resources_arm

PAGES: dict[str, Callable[[], list[Run]]] = {
    "queries": lambda: [tpcds_run()],
    "queries compared": lambda: [tpcds_run(arm="plain Spark", rounds=3), tpcds_run(rounds=3)],
    "starts": lambda: [starts_run("Penstock", 6), starts_run("plain Spark", 12)],
    "timed work": lambda: [lab_runs.terasort()],
    "requests at the store": lambda: [
        resources_arm("plain Spark", gets=None, at_store=1_234_567),
        resources_arm("Penstock", gets=8, at_store=123_456),
    ],
    "figures in doubt": doubtful_runs.RUNS["failed query"],
    "a wrong result": lambda: [lab_runs.terasort_gone_wrong()],
    "nothing measured": lambda: [lab_runs.run("terasort", [], outcome="unfinished", settings={"spark.x": "1"})],
    "throughput against clients": lambda: [lab_runs.dfsio()],
    "load": lambda: [lab_runs.objects()],
    "timed work compared": lambda: [lab_runs.terasort(seconds=20, arm="plain"), lab_runs.terasort()],
    "many arms": lambda: [
        lab_runs.dfsio(arm="S3A"),
        lab_runs.dfsio(arm="cache", faster=1.4),
        lab_runs.dfsio(arm="far"),
    ],
    "stores": store_runs.eight,
    "sizes": lambda: [
        lab_runs.terasort(seconds=12 / n, size=lab_runs.size(n), arm=f"{n} executors") for n in (1, 2, 4)
    ],
}


def prices() -> str:
    """Return the page of `penstock lab price`, which needs more than runs."""
    runs = PAGES["sizes"]()
    asked = price_report.PriceOptions(
        pricefile.read_prices(), [cost.parse_protection("3x"), cost.parse_protection("4+2")], 1e15
    )
    return make.write(price_report.document(runs, asked), runs, "html")


A4_BETWEEN_MARGINS = 703
"""CSS pixels: 210 mm less the page's margins of 12 mm each."""

UNSEEN_PLOTS = """[...document.querySelectorAll('.plot [role=img]')].filter((plot) => {
  const svg = plot.querySelector('svg.main-svg');
  const box = svg && svg.getBoundingClientRect();
  const marks = plot.querySelectorAll('.trace, .bars .point, .boxlayer .box, .text').length;
  return !box || box.width < 100 || box.height < 50 || !marks || !plot.getAttribute('aria-label').trim();
}).map((plot) => plot.id)"""

BEYOND_THE_EDGE = """(() => {
  const reaches = (part, edge) => part.getBoundingClientRect().right > edge.getBoundingClientRect().right + 1;
  const parts = [...document.querySelectorAll('main *:not(svg *)')].filter((part) => reaches(part, document.body));
  const texts = [...document.querySelectorAll(".plot svg text")];
  const labels = texts.filter((text) => reaches(text, text.closest(".plot")));
  return [...parts, ...labels].map((part) => `${part.tagName} ${part.textContent.slice(0, 40)}`);
})()"""


def _parameter(name: str) -> ParameterSet:
    """A report to render. Tests of one report share its pages, so one worker runs them; reports spread over workers."""
    identity = name.replace(" ", "-")
    return pytest.param(name, id=identity, marks=pytest.mark.xdist_group(f"report-{identity}"))


class Tab:
    """A tab that shows one report after the other.

    Chromium takes a second to compile Plotly, and keeps the result for scripts of the same text, address and line. So
    all reports have the same address, and empty lines before the doctype, which HTML ignores, align their scripts.
    """

    _LINES_BEFORE_SCRIPTS = 1000

    def __init__(self, page: Page, file: Path) -> None:
        self.page, self.file = page, file

    @staticmethod
    @contextlib.contextmanager
    def opened(browser: Browser, directory: Path) -> Iterator[Tab]:
        page = browser.open("about:blank")
        yield Tab(page, directory / "report.html")
        page.close()

    def show(self, report: str, *, dark: bool = False, width: int = 1200, height: int = 900) -> Page:
        lines = report[: report.index("<script>")].count("\n")
        self.file.write_text("\n" * (self._LINES_BEFORE_SCRIPTS - lines) + report, encoding="utf-8")
        self.page.show(self.file, dark=dark, width=width, height=height)
        return self.page


@pytest.fixture(scope="module")
def tab(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """A tab in which any test may show a report."""
    with Tab.opened(browser, tmp_path_factory.mktemp("a report")) as opened:
        yield opened


@pytest.fixture(scope="module")
def light_tab(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """The tab of the fixture `light`."""
    with Tab.opened(browser, tmp_path_factory.mktemp("a light report")) as opened:
        yield opened


@pytest.fixture(scope="module", params=[_parameter(name) for name in (*PAGES, "prices")])
def report(request: pytest.FixtureRequest) -> str:
    return prices() if request.param == "prices" else make.as_html(PAGES[request.param]())


@pytest.fixture(scope="module")
def light(light_tab: Tab, report: str) -> Page:
    return light_tab.show(report)


@pytest.fixture
def phone(light: Page) -> Iterator[Page]:
    """Resize the page to a small screen for the duration of a test."""
    light.resize(390, 844)
    yield light
    light.resize(1200, 900)


@pytest.fixture
def dark(tab: Tab, report: str) -> Page:
    return tab.show(report, dark=True)


def test_a_page_draws_all_its_plots_and_asks_for_nothing_but_itself(light: Page, light_tab: Tab, report: str) -> None:
    assert light.problems == []
    assert light.requested == [light_tab.file.as_uri()]
    plots = report.count('role="img"')
    assert light.evaluate("document.querySelectorAll('.plot svg.main-svg:first-child').length") == plots
    assert light.evaluate(UNSEEN_PLOTS) == []
    assert colours(light) == ("rgb(255, 255, 255)", "rgb(20, 32, 43)")


def test_every_plot_has_a_text_alternative(light: Page) -> None:
    light.call("Accessibility.enable")
    nodes = light.call("Accessibility.getFullAXTree")["nodes"]
    light.call("Accessibility.disable")
    labels = [node["name"]["value"] for node in nodes if node.get("role", {}).get("value") in ("img", "image")]
    assert len([text for text in labels if len(text) > 10]) >= light.evaluate(
        "document.querySelectorAll('.plot').length"
    )


def test_a_phone_scrolls_a_page_in_one_direction_only(phone: Page) -> None:
    # Plotly redraws a plot some time after its container was resized.
    phone.until("document.documentElement.scrollWidth <= 390")
    assert phone.evaluate(UNSEEN_PLOTS) == []


def test_a_page_is_dark_where_the_reader_likes_it_dark_and_printed_whole_in_ink_on_paper(dark: Page) -> None:
    assert dark.problems == []
    assert dark.evaluate(UNSEEN_PLOTS) == []
    assert colours(dark) == ("rgb(16, 23, 30)", "rgb(232, 237, 241)")

    paper, _ = colours(dark)
    printed = dark.pdf()
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 12
    assert _fill(paper) not in _drawing(printed)
    assert colours(dark)[0] == paper, "it stayed as it was printed"

    dark.call("Emulation.setEmulatedMedia", media="print")
    dark.resize(A4_BETWEEN_MARGINS, 1000)
    dark.evaluate("dispatchEvent(new Event('beforeprint'))")
    dark.until(f"{BEYOND_THE_EDGE}.length === 0")
    assert dark.evaluate(UNSEEN_PLOTS) == []
    assert dark.evaluate("document.querySelectorAll('details:not([open])').length") == 0


@pytest.mark.parametrize("kind", doubtful_runs.RUNS)
def test_every_doubt_is_on_the_first_screen_above_all_figures(tab: Tab, kind: str) -> None:
    page = tab.show(make.as_html(doubtful_runs.RUNS[kind]()), width=1280, height=800)
    for width, height in ((1280, 800), (390, 844)):
        page.resize(width, height)
        page.until(f"innerWidth === {width}")
        end = page.evaluate("document.querySelector('.doubts li:last-child').getBoundingClientRect().bottom")
        figures = page.evaluate("document.querySelector('.figures').getBoundingClientRect().top")
        assert end <= min(height, figures), (kind, width)


def test_a_table_that_is_wider_than_a_phone_is_scrolled_by_keyboard_too(tab: Tab) -> None:
    page = tab.show(make.as_html([lab_runs.objects()]), width=390, height=844)
    wide = "[...document.querySelectorAll('.table')].filter((part) => part.scrollWidth > part.clientWidth)"
    assert page.evaluate(f"{wide}.length") > 0
    assert page.evaluate(f"{wide}.every((part) => {{ part.focus(); return document.activeElement === part; }})")


@pytest.mark.parametrize("width", [390, 1280])
def test_each_of_a_hundred_queries_has_a_label_that_can_be_read(tab: Tab, width: int) -> None:
    queries = [f"q{number}" for number in range(1, 105)]
    page = tab.show(make.as_html([tpcds_run(queries=queries)]), width=width, height=844)
    page.until("document.documentElement.scrollWidth <= innerWidth")
    labels = page.evaluate("""[...document.querySelectorAll('#time-per-query .ytick text')].map((label) => {
      const box = label.getBoundingClientRect();
      return [label.textContent, box.left, box.top, box.bottom, parseFloat(getComputedStyle(label).fontSize)];
    })""")
    assert sorted(name for name, *_ in labels) == sorted(queries)
    assert all(left >= 0 and size >= 10 for _, left, _, _, size in labels)
    rows = sorted((top, bottom) for _, _, top, bottom, _ in labels)
    assert all(bottom <= after for (_, bottom), (after, _) in itertools.pairwise(rows))


def colours(page: Page) -> tuple[str, str]:
    """Return (paper, ink), after checking that plots also use the style sheet's colours."""
    drawn = page.evaluate("[...document.querySelectorAll('svg text')].map((text) => getComputedStyle(text).fill)")
    assert "rgb(0, 0, 0)" not in drawn, "a colour of the style sheet did not arrive"
    paper = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    return paper, page.evaluate("getComputedStyle(document.querySelector('table td')).color")


def _drawing(pdf: bytes) -> bytes:
    """Return the drawing instructions of a PDF: its deflated streams without the fonts, which Chromium deflates too."""
    streams = re.findall(rb"stream\r?\n(.*?)endstream", pdf, re.DOTALL)
    found = [zlib.decompress(stream) for stream in streams if stream.startswith(b"x\x9c")]
    assert any(b" rg" in instructions for instructions in found), "no instruction was found"
    return b"\n".join(found)


def _fill(colour: str) -> bytes:
    """Return `rgb(16, 23, 30)` in PDF syntax: `.0627 .0902 .1176 rg`."""
    shares = [
        f"{int(value) / 255:.4f}".lstrip("0").rstrip("0").rstrip(".") or "0" for value in re.findall(r"\d+", colour)
    ]
    return f"{' '.join(shares)} rg".encode()
