"""Links of documents resolve where the site's build does not check them: outside docs/, and to images."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OUTSIDE = sorted(ROOT.glob("*.md"))
"""Pages that `make docs` does not build: README.md and its siblings."""
PAGES = [*OUTSIDE, *sorted((ROOT / "docs").rglob("*.md"))]

LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
DISCOURAGED = re.compile(r"\btold\b|cannot be had|as it should be")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def links(page: Path) -> Iterator[tuple[bool, str]]:
    """Yield whether each link is an image, and its target, without code and without addresses of other sites."""
    for image, target in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        if "://" not in target:
            yield bool(image), target


def slugs(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def broken(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    found = (page.parent / path) if path else page
    return not found.exists() or (bool(anchor) and anchor not in slugs(found))


@pytest.mark.parametrize("page", OUTSIDE, ids=name)
def test_links_of_pages_outside_the_site_resolve(page: Path) -> None:
    assert [target for _, target in links(page) if broken(page, target)] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_images_exist(page: Path) -> None:
    assert [target for image, target in links(page) if image and broken(page, target)] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_page_uses_the_discouraged_words(page: Path) -> None:
    assert DISCOURAGED.findall(page.read_text(encoding="utf-8")) == []


def test_every_image_is_shown_by_a_page() -> None:
    shown = {(page.parent / target).resolve() for page in PAGES for image, target in links(page) if image}
    assert set((ROOT / "docs" / "images").iterdir()) - shown == set()


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page, twice\n\n[a](#a-page-twice) [b](none.md) [c](#none) ![d](none.png) `[e](code.md)`\n")
    assert [(image, target) for image, target in links(page) if broken(page, target)] == [
        (False, "none.md"),
        (False, "#none"),
        (True, "none.png"),
    ]
