"""A real browser for tests: Chromium over its debugging pipe, so that no port, driver or package is needed."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_PATIENCE_SECONDS = 60.0
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *(
        "--disable-component-update",
        "--disable-sync",
        "--disable-quic",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    ),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"),
)
A4_INCHES = (8.27, 11.69)


class _LeftError(RuntimeError):
    """The page was left or reloaded before it answered."""


class Browser:
    """One browser process with any number of pages, each with fresh state."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._pending = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    @staticmethod
    @contextlib.contextmanager
    def started(profile: Path) -> Iterator[Browser]:
        """Return the machine's Chromium, or skip the test where there is none."""
        command = shutil.which("chromium") or shutil.which("google-chrome")
        if command is None:
            pytest.skip("no Chromium on this machine")
        # Chromium reads commands from descriptor 3 and writes answers and events to descriptor 4.
        to_browser, from_browser = os.pipe(), os.pipe()
        theirs = (to_browser[0], from_browser[1])
        process = subprocess.Popen(
            # A shell renumbers them: subprocess passes a descriptor on only under the number it has in this process.
            [
                *("bash", "-c", 'exec "$0" "$@" 3<&{} 4>&{}'.format(*theirs), command),
                *(*_FLAGS, f"--user-data-dir={profile}", "about:blank"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=theirs,
        )
        for descriptor in theirs:
            os.close(descriptor)
        browser = Browser(from_browser[0], to_browser[1])
        try:
            yield browser
        finally:
            browser.call("Browser.close")
            process.wait(timeout=_PATIENCE_SECONDS)
            os.close(from_browser[0])
            os.close(to_browser[1])

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Raises `RuntimeError` where the browser refuses."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        content = json.dumps(message).encode() + b"\0"
        while content:
            content = content[os.write(self._write, content) :]
        while True:
            found = self._next()
            if found.get("id") == number:
                if "error" in found:
                    left = "navigated" in found["error"]["message"]
                    raise (_LeftError if left else RuntimeError)(f"{method}: {found['error']}")
                return dict(found["result"])
            self.events.append(found)

    def wait_for(self, session: str, method: str) -> None:
        while not any(event.get("sessionId") == session and event["method"] == method for event in self.events):
            self.events.append(self._next())

    def open(self, page: Path | str, *, dark: bool = False, width: int = 1200, height: int = 900) -> Page:
        """Open a file, or an address on this machine."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        opened = Page(self, session, target)
        for domain in ("Page", "Runtime", "Network", "Log"):
            opened.call(f"{domain}.enable")
        # A page behind another one is hidden, and a hidden page gets no animation frames.
        opened.call("Emulation.setFocusEmulationEnabled", enabled=True)
        opened.show(page, dark=dark, width=width, height=height)
        return opened

    def forget(self, session: str) -> None:
        """Drop a page's events."""
        self.events = [event for event in self.events if event.get("sessionId") != session]

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while b"\0" not in self._pending:
            ready, _, _ = select.select([self._read], [], [], deadline - time.monotonic())
            received = os.read(self._read, 1 << 20) if ready else b""
            if not received:
                raise TimeoutError("the browser said nothing")
            self._pending += received
        message, _, self._pending = self._pending.partition(b"\0")
        return dict(json.loads(message))


class Page:
    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser, self._session, self._target = browser, session, target

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)

    def show(self, page: Path | str, *, dark: bool = False, width: int = 1200, height: int = 900) -> None:
        """Load a file or an address, as `Browser.open` does, in place of what this page showed."""
        self.resize(width, height)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", media="", features=scheme)
        self._browser.forget(self._session)
        self.call("Page.navigate", url=page.as_uri() if isinstance(page, Path) else page)
        self._browser.wait_for(self._session, "Page.loadEventFired")

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; a promise is awaited."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def resize(self, width: int, height: int) -> None:
        """Set the size in CSS pixels and return once the page was laid out and painted at that size."""
        # A page behind another one is painted once a second.
        self.call("Page.bringToFront")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.painted()

    def painted(self) -> None:
        """Return after the second animation frame: by then everything due before the first is on the screen."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def settled(self, stream: str) -> None:
        """Return once every request is answered and rendered, except those whose address ends with `stream`."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            self.painted()
            if not (waiting := self._unanswered(stream)):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"never answered: {sorted(waiting)}")

    def _unanswered(self, stream: str) -> set[str]:
        waiting: dict[str, str] = {}
        for event in self._own_events():
            if event["method"] == "Network.requestWillBeSent":
                waiting[event["params"]["requestId"]] = event["params"]["request"]["url"]
            elif event["method"] in ("Network.loadingFinished", "Network.loadingFailed"):
                waiting.pop(event["params"]["requestId"], None)
        return {address for address in waiting.values() if not address.endswith(stream)}

    def until(self, expression: str) -> Any:
        """Return the expression's first true value, also from a page that is loaded meanwhile.

        Raises `TimeoutError`.
        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            found = None
            with contextlib.suppress(_LeftError):
                found = self.evaluate(expression)
            if found:
                return found
            if time.monotonic() > deadline:
                raise TimeoutError(f"never true: {expression}")
            time.sleep(0.02)

    def press(self, *keys: str) -> None:
        """Press one key after the other, as on a keyboard: `j`, `Enter`, `?`."""
        for key in keys:
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            for kind in ("keyDown", "keyUp"):
                more = {"text": text} if text and kind == "keyDown" else {}
                number = {"Enter": 13, "Escape": 27}.get(key, 0)
                self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=number, **more)

    def write(self, text: str) -> None:
        """Type into the focused element."""
        self.call("Input.insertText", text=text)

    def picture(self, file: Path) -> None:
        """Return a screenshot of the page, as PNG."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    @property
    def problems(self) -> list[dict[str, Any]]:
        """Return exceptions and console errors since the page was opened or `show` was called."""
        return [
            event["params"]
            for event in self._own_events()
            if event["method"] == "Runtime.exceptionThrown"
            or (event["method"] == "Runtime.consoleAPICalled" and event["params"]["type"] in ("error", "warning"))
            or (event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] in ("error", "warning"))
        ]

    @property
    def requested(self) -> list[str]:
        """Return the addresses that the page requested since it was opened or `show` was called."""
        return [
            event["params"]["request"]["url"]
            for event in self._own_events()
            if event["method"] == "Network.requestWillBeSent"
        ]

    def pdf(self) -> bytes:
        """Return the page as a PDF, printed on A4 with the page's own margins."""
        width, height = A4_INCHES
        found = self.call("Page.printToPDF", paperWidth=width, paperHeight=height, printBackground=True)
        return base64.b64decode(found["data"])

    def close(self) -> None:
        self._browser.call("Target.closeTarget", targetId=self._target)
        self._browser.forget(self._session)

    def _own_events(self) -> list[dict[str, Any]]:
        return [event for event in self._browser.events if event.get("sessionId") == self._session]
