"""A page in a headless Chromium, driven over the browser's own DevTools protocol through a pipe.

The pipe needs no port and no library: a message is JSON and ends with a NUL byte. What the page logs, what fails in it
and which requests it makes is kept, so that a test can say that there was nothing.
"""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from powertrain_devcluster.errors import ClusterError
from powertrain_devcluster.tools.chromium import Browser

_ANSWER_S = 30.0
_FLAGS = (
    "--headless",
    "--no-sandbox",  # it opens files of ours only, and root has no sandbox
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--remote-debugging-pipe",
)


class Page:
    """One page of one browser; a context manager that ends the browser."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._next = 0
        self._session = ""
        self._buffer = b""
        self._loaded = False
        self.problems: list[str] = []
        self.requests: list[str] = []

    def __enter__(self) -> Page:
        self._profile = tempfile.TemporaryDirectory(prefix="powertrain-browser-", ignore_cleanup_errors=True)
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        command = [str(self._browser.program), *_FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        # The browser reads from descriptor 3 and writes to 4; other shells know descriptors of one digit only.
        shell = ["bash", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "bash", *command]
        self._process = subprocess.Popen(
            shell,
            env={**os.environ, **self._browser.env},
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        try:
            self._attach()
        except ClusterError:
            self.close()
            raise
        return self

    def _attach(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the browser."""
        os.close(self._write)
        os.close(self._read)
        self._process.kill()
        self._process.wait()
        self._profile.cleanup()

    def open(self, file: Path, until: str) -> None:
        """Load a file and wait until an expression is true in it."""
        self._loaded = False
        self.call("Page.navigate", url=file.resolve().as_uri())
        end_s = time.monotonic() + _ANSWER_S
        while not self._loaded:
            self._note(self._message(end_s, "Page.navigate"))
        self.wait(until)

    def wait(self, expression: str) -> None:
        """Wait until an expression is true in the page."""
        end_s = time.monotonic() + _ANSWER_S
        while not self.evaluate(expression):
            if time.monotonic() > end_s:
                raise ClusterError(f"the page never came to {expression}: {'; '.join(self.problems) or 'no message'}")

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise ClusterError(f"{expression}: {answer['exceptionDetails'].get('text')}")
        return answer["result"].get("value")

    def size(self, width: int, height: int, scale: float = 1.0) -> None:
        """Set the window's size."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False
        )

    def media(self, kind: str = "screen", scheme: str = "light") -> None:
        """Show the page as on a screen or on paper, light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=kind, features=features)

    def hover(self, x: float, y: float) -> None:
        """Move the mouse."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key: str) -> None:
        """Press and release a key, by its DOM name."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def picture(self, whole: bool = False) -> bytes:
        """Return what is seen as a PNG, or the whole page."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(shot["data"])

    def pdf(self) -> bytes:
        """Return the page as it is printed."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False, paperWidth=8.27)["data"])

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the protocol and return its answer."""
        self._next += 1
        message: dict[str, Any] = {"id": self._next, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end_s = time.monotonic() + _ANSWER_S
        while True:
            answer = self._message(end_s, method)
            if answer.get("id") == self._next:
                if "error" in answer:
                    raise ClusterError(f"{method}: {answer['error'].get('message')}")
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _message(self, end_s: float, method: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end_s - time.monotonic()))
            part = os.read(self._read, 1 << 20) if ready else b""
            if not part:
                raise ClusterError(f"the browser gave no answer to {method}; exit code {self._process.poll()}")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _note(self, event: Mapping[str, Any]) -> None:
        name, details = event.get("method"), event.get("params") or {}
        if name == "Network.requestWillBeSent":
            self.requests.append(str(details["request"]["url"]))
        elif name == "Page.loadEventFired":
            self._loaded = True
        elif name == "Runtime.exceptionThrown":
            thrown = details["exceptionDetails"]
            self.problems.append(str((thrown.get("exception") or {}).get("description") or thrown.get("text")))
        elif name == "Runtime.consoleAPICalled" and details.get("type") in ("error", "warning", "assert"):
            self.problems.append(" ".join(str(each.get("value")) for each in details.get("args", ())))
        elif name == "Log.entryAdded" and details["entry"].get("level") in ("error", "warning"):
            self.problems.append(str(details["entry"].get("text")))
