"""The page draws itself in a real browser, without a network, in light and in dark."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "unit" / "lab"))

from test_reports import run

from penstock.lab.report import make

pytestmark = pytest.mark.integration

DARK = "--blink-settings=preferredColorScheme=0"


@pytest.fixture
def browser() -> str:
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium on this machine")
    return found


def dom(browser: str, page: Path, scratch: Path, *flags: str) -> str:
    """The page as the browser has it after its script ran."""
    command = [
        browser,
        *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
        *("--disable-component-update", "--disable-sync", "--disable-quic", "--host-resolver-rules=MAP * ~NOTFOUND"),
        *(f"--user-data-dir={scratch}", "--virtual-time-budget=8000", "--dump-dom", *flags, page.as_uri()),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.mark.parametrize(("flags", "ink"), [((), "#14202b"), ((DARK,), "#e8edf1")], ids=["light", "dark"])
def test_every_plot_is_drawn_in_the_colours_of_the_scheme(
    browser: str, tmp_path: Path, flags: tuple[str, ...], ink: str
) -> None:
    page = tmp_path / "a report.html"
    page.write_text(make.as_html([run()]), encoding="utf-8")
    drawn = dom(browser, page, tmp_path / "profile", *flags)
    names = re.findall(r'<div id="([a-z-]+)" role="img"', drawn)
    assert {"time-per-query", "distribution", "cumulative"} <= set(names)
    assert drawn.count('class="main-svg"') >= len(names)
    red, green, blue = (int(ink[i : i + 2], 16) for i in (1, 3, 5))
    assert f"rgb({red}, {green}, {blue})" in drawn


def test_a_comparison_is_drawn(browser: str, tmp_path: Path) -> None:
    page = tmp_path / "comparison.html"
    page.write_text(make.as_html([run(arm="plain Spark", rounds=3), run(rounds=3)]), encoding="utf-8")
    assert dom(browser, page, tmp_path / "profile").count('class="main-svg"') >= 2
