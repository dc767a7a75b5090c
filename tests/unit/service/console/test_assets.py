"""The console's files: complete, confined to their own origin by policy, and never stale in a cache."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.service.console.assets import assets
from tests.unit.service.fakes import Stage

SCRIPTS = [name for name in assets() if name.endswith(".js")]


@pytest.mark.parametrize(
    "address", ["/", "/docs", "/console/shell.js", "/console/views/run.js", "/console/colours.css"]
)
def test_pages_need_no_token_and_load_nothing_from_outside(tmp_path: Path, address: str) -> None:
    answer = Stage(tmp_path).client(None).get(address)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("name", ["../app.py", "..%2fapp.py", "%2e%2e/pages.py", "assets.py", "", "views", "shell.js/"])
def test_no_other_file_can_be_asked_for(tmp_path: Path, name: str) -> None:
    assert Stage(tmp_path).client(None).get(f"/console/{name}").status_code in (404, 405)


def test_a_file_is_sent_again_only_where_it_changed(tmp_path: Path) -> None:
    client = Stage(tmp_path).client(None)
    first = client.get("/console/shell.js")
    again = client.get("/console/shell.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/console/shell.js", headers={"If-None-Match": '"another"'}).content == first.content


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_module_that_is_imported_is_there(name: str) -> None:
    for imported in re.findall(r'from "([^"]+)"|^import "([^"]+)"', assets()[name].content.decode(), re.MULTILINE):
        path = (Path("/") / Path(name).parent / "".join(imported)).resolve()
        assert path.relative_to("/").as_posix() in assets()


@pytest.mark.parametrize("page", ["index.html", "reference.html"])
def test_what_a_page_names_is_there_and_nothing_is_inline(page: str) -> None:
    text = assets()[page].content.decode()
    for address in re.findall(r'(?:href|src)="([^"#]+)"', text):
        assert address.removeprefix("console/") in assets()
    assert not re.search(r"<style|<script(?![^>]*src=)| on\w+=| style=", text)


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_makes_markup_out_of_text(name: str) -> None:
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", assets()[name].content.decode()
    )
