"""A headless Chromium for tests of pages: loads a file, and measures what a reader of a given screen would see.

Speaks the DevTools protocol over a pipe, so it needs no package, no driver and no port. Invariant: where
`FLOODMARK_REQUIRE_CONTAINERS` is set (a build machine), a missing Chromium is a failure, not a skip.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_ANSWER_S: Final = 60
"""Most that one command may take, on a machine that does much else."""
_MEASURE: Final = (Path(__file__).parent / "measure.js").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a page looks like on one screen; each list names the offenders, and is empty on a good page."""

    width: int
    overflow: tuple[str, ...]
    """Elements that make the page scroll sideways."""
    small: tuple[str, ...]
    """Text under 11 px, as drawn: text of a chart is scaled with it."""
    pale: tuple[str, ...]
    """Text whose contrast with what is behind it is under 4.5."""
    split: tuple[str, ...]
    """Words of which a line holds fewer than three letters."""
    charts: tuple[int, ...]
    """The height of each chart in pixels."""
    texts: int
    """How many pieces of text were looked at."""


def require_chromium() -> str:
    """The program; skips the test with the reason where there is none, or fails it where one is required."""
    found = next((path for name in _NAMES if (path := shutil.which(name)) is not None), None)
    if found is None:
        lacking = "no Chromium on the PATH; Debian's package is `chromium`"
        if os.environ.get("FLOODMARK_REQUIRE_CONTAINERS"):  # noqa: TID251  as `harness.tests.real_world` reads it
            pytest.fail(f"a browser is required here, but: {lacking}")
        pytest.skip(lacking)
    return found


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """A browser with an empty profile in `folder`; it has ended when the block ends."""
    program = require_chromium()
    ours, theirs = os.pipe(), os.pipe()
    arguments = [
        program, "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={folder}", "--no-sandbox",
        "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run", "--mute-audio",
        "--disable-background-networking", "--disable-component-update", "--disable-extensions",
        "--proxy-server=127.0.0.1:9",  # nothing that a page asks for is answered
        "about:blank",
    ]  # fmt: skip
    with (folder / "chromium.log").open("wb") as log:
        ends = [(os.POSIX_SPAWN_DUP2, log.fileno(), number) for number in (1, 2)]
        ends += [(os.POSIX_SPAWN_DUP2, ours[0], 3), (os.POSIX_SPAWN_DUP2, theirs[1], 4)]
        environment = dict(os.environ)  # noqa: TID251  the browser's own: HOME, PATH, fonts
        pid = os.posix_spawn(program, arguments, environment, file_actions=ends, setpgroup=0)
    os.close(ours[0])
    os.close(theirs[1])
    try:
        yield Browser(commands=ours[1], answers=theirs[0])
    finally:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ours[1])
        os.close(theirs[0])


@dataclass(slots=True, kw_only=True)
class Browser:
    """One tab. Mutable: it holds the state of the pipe."""

    commands: int
    answers: int
    _count: int = 0
    _session: str = ""
    _read: bytes = b""
    _events: list[str] = field(default_factory=list)

    def open(self, page: Path, *, scripts: bool = True) -> None:
        """Load a file, and wait until it is laid out."""
        if not self._session:
            target = self.ask("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            self.ask("Page.enable")
        self.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        self._events.clear()
        self.ask("Page.navigate", url=page.resolve().as_uri())
        while "Page.loadEventFired" not in self._events:
            self._take()

    def show(self, *, width: int, dark: bool = False, media: str = "screen") -> None:
        """Give the page a screen of this width, a colour scheme, and `screen` or `print`."""
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def measure(self, *, width: int, dark: bool = False) -> Measured:
        """Measure the page on such a screen, with every `details` open."""
        self.show(width=width, dark=dark)
        told: Mapping[str, Any] = json.loads(self.evaluate(_MEASURE))
        return Measured(
            width=width,
            overflow=tuple(told["overflow"]),
            small=tuple(told["small"]),
            pale=tuple(told["pale"]),
            split=tuple(told["split"]),
            charts=tuple(told["charts"]),
            texts=told["texts"],
        )

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page; the page's own policy does not hold it back."""
        told = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def picture(self, *, width: int, dark: bool = False) -> bytes:
        """A PNG of the whole page."""
        self.show(width=width, dark=dark)
        told = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(told["data"])

    def printed(self) -> bytes:
        """The page as a PDF on A4."""
        self.show(width=700, media="print")
        told = self.ask(
            "Page.printToPDF",
            paperWidth=8.27,
            paperHeight=11.69,
            printBackground=False,
            preferCSSPageSize=True,
        )
        return base64.b64decode(told["data"])

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        left = memoryview(json.dumps(message).encode() + b"\0")
        while left:
            left = left[os.write(self.commands, left) :]
        while (answer := self._take()).get("id") != self._count:
            pass
        assert "error" not in answer, (method, answer)
        result: dict[str, Any] = answer["result"]
        return result

    def _take(self) -> dict[str, Any]:
        """The next message; the name of an event is kept."""
        while b"\0" not in self._read:
            ready, _, _ = select.select([self.answers], [], [], _ANSWER_S)
            assert ready, f"Chromium did not answer within {_ANSWER_S} s"
            part = os.read(self.answers, 1 << 20)
            assert part, "Chromium has ended"
            self._read += part
        line, _, self._read = self._read.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self._events.append(message["method"])
        return message
