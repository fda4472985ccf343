"""The calm twin in a process of its own at levels with a real world: `python -m harness.engine.calm_process`.

Invariants: the process ends when its twin does, when it says nothing for too long, or when the harness has died; what
user code prints goes to its log. It is started before the database is ready, since a Python process takes a while.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any, Final

import msgspec

from harness.sut.calm_twin import CALL_S, CalmTwin, Questions
from harness.system.child import PYTHON, Child, end_with_parent, pipe_to_parent
from harness.system.json_types import JsonView

_SILENT_S: Final = 2 * CALL_S + 20.0
"""How long it may say nothing: a call, its end, and the start of Python on a busy machine."""
_END_S: Final = 3.0


class CalmProcess:
    """A started process that waits for its questions."""

    def __init__(self, child: Child) -> None:
        self._child = child

    def ask(self, questions: Questions) -> Iterator[JsonView]:
        """The lines of the twin; the last one is `end`, or `gone` if the process ended or was stopped before."""
        self._child.send(msgspec.json.encode(questions) + b"\n")
        for line in self._child.lines(silent_s=_SILENT_S):
            told: dict[str, Any] = msgspec.json.decode(line)
            yield told
            if told["k"] == "end":
                return
        code = self._child.wait(_END_S)
        if code is None:
            yield {"k": "gone", "why": f"it blocked its process for more than {_SILENT_S:g} s"}
        else:
            yield {"k": "gone", "why": f"its process ended with exit code {code} in a call"}


@contextmanager
def calm_process(log: Path) -> Iterator[CalmProcess]:
    """A process for one twin, which has ended when the block does; its output goes to the file `log`."""
    command = [*PYTHON, "harness.engine.calm_process"]
    with Child(command, name="the calm twin", talks=True, output=PIPE, errors=log) as child:
        yield CalmProcess(child)


def main() -> int:
    """Reads the questions, one line, and writes the twin's lines."""
    from harness.database.driver import AsyncMySqlDriver  # noqa: PLC0415 - the harness's side needs none of these
    from harness.sut.registry import load_lookup  # noqa: PLC0415
    from harness.sut.user_code import take_path  # noqa: PLC0415
    from harness.system.errors import SutError  # noqa: PLC0415
    from harness.system.own_packages import import_ours  # noqa: PLC0415
    from reference_impl.mailbox.loops import real_loop  # noqa: PLC0415

    out = pipe_to_parent()
    line = sys.stdin.buffer.readline()
    if not line:
        return 1  # the harness has died
    questions = msgspec.json.decode(line, type=Questions)
    end_with_parent()
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


if __name__ == "__main__":
    sys.exit(main())
