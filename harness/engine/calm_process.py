"""The calm twin in a process of its own at levels with a real world: `python -m harness.engine.calm_process`.

Invariants: the process ends when its twin does, when it says nothing for too long, or when the harness has died; what
user code prints goes to its log. It is started before the database is ready, since a Python process takes a while.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.sut.calm_twin import CALL_S, CalmTwin, Questions

_SILENT_S: Final = 2 * CALL_S + 20.0
"""How long it may say nothing: a call, its end, and the start of Python on a busy machine."""
_END_S: Final = 3.0


class CalmProcess:
    """A started process that waits for its questions."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def ask(self, questions: Questions) -> Iterator[Mapping[str, Any]]:
        """The lines of the twin; the last one is `end`, or `gone` if the process ended or was stopped before."""
        pipe = self._process.stdin
        assert pipe is not None, "it was started with pipes"
        with suppress(BrokenPipeError):
            pipe.write(msgspec.json.encode(questions) + b"\n")
            pipe.flush()
        for line in self._lines():
            told: dict[str, Any] = msgspec.json.decode(line)
            yield told
            if told["k"] == "end":
                return
        try:
            code = self._process.wait(timeout=_END_S)
        except subprocess.TimeoutExpired:
            yield {"k": "gone", "why": f"it blocked its process for more than {_SILENT_S:g} s"}
        else:
            yield {"k": "gone", "why": f"its process ended with exit code {code} in a call"}

    def _lines(self) -> Iterator[bytes]:
        """The whole lines that it writes, until it ends or is silent for too long."""
        out, rest = self._process.stdout, b""
        assert out is not None, "it was started with pipes"
        while select.select([out], [], [], _SILENT_S)[0]:
            read = os.read(out.fileno(), 1 << 16)
            if not read:
                return
            *whole, rest = (rest + read).split(b"\n")
            yield from whole


@contextmanager
def calm_process(log: Path) -> Iterator[CalmProcess]:
    """A process for one twin, which has ended when the block does; its output goes to the file `log`."""
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "harness.engine.calm_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C at the terminal must reach the harness only
        )
    try:
        yield CalmProcess(process)
    finally:
        process.kill()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None, "it was started with pipes"
            with suppress(BrokenPipeError):
                pipe.close()
        process.wait(timeout=_END_S)


def main() -> int:
    """Reads the questions, one line, and writes the twin's lines."""
    import threading  # noqa: PLC0415 - the harness's side needs none of these

    from harness.database.driver import AsyncMySqlDriver  # noqa: PLC0415
    from harness.sut.registry import load_lookup  # noqa: PLC0415
    from harness.sut.user_modules import take_path  # noqa: PLC0415
    from harness.system.errors import SutError  # noqa: PLC0415
    from harness.system.own_packages import import_ours  # noqa: PLC0415
    from reference_impl.mailbox.loops import real_loop  # noqa: PLC0415

    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what user code prints
    line = sys.stdin.buffer.readline()
    if not line:
        return 1  # the harness has died
    questions = msgspec.json.decode(line, type=Questions)
    threading.Thread(target=_end_with_harness, args=(sys.stdin.fileno(),), daemon=True).start()
    import_ours()
    take_path(questions.path)

    def tell(told: Mapping[str, object]) -> None:
        out.write(msgspec.json.encode(told) + b"\n")

    try:
        lookup = load_lookup(questions.sut)
    except SutError as refusal:
        tell({"k": "refused", "what": refusal.what, "fix": refusal.fix})
        return 1
    assert questions.lookups is not None, "a real world has an endpoint"
    with real_loop() as loop:
        twin = CalmTwin(questions, lookup=lookup, driver=AsyncMySqlDriver(questions.lookups), tell=tell)
        loop.run_until_complete(twin.ask())
    return 0


def _end_with_harness(pipe: int) -> None:
    """Ends this process at end of file on the pipe, which means that the harness died."""
    os.read(pipe, 1)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
