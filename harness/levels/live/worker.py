"""The process of one attempt at level `live`, which the fork server has made; its orders come through stdin.

Answers to Spark's Python worker. Invariant: it ends when its work does, or when the pipe closes because the harness
has died.
"""

from __future__ import annotations

import os
import sys
import threading
from textwrap import indent

import msgspec

from harness.scenario.plan import decode_plan
from harness.sut.user_code import take_path
from harness.system.child import end_with_parent
from harness.system.clock import pause
from harness.system.errors import SutError
from harness.system.own_packages import import_ours

_end_now = os._exit
"""Kept, because the attribute is another one while user code is imported (`harness.sut.user_code`)."""
DONE = 64
"""Exit code of an attempt that has done all its work: not 0, with which a user's function may end the process."""
FAILED = 1
"""Exit code of an attempt that reported its failure; the supervisor may start it again."""
REFUSED = 4
"""Exit code of an attempt whose function under test breaks a rule; another attempt would end in the same way."""


def import_all() -> None:
    """Import what an attempt needs of ours, before any code of a user's is on the path."""
    import_ours()
    import harness.levels.live.place  # noqa: F401, PLC0415


def main() -> int:
    """Read the subtask's number and the plan, one line each, then run an attempt of that subtask."""
    pipe = sys.stdin.buffer
    subtask = msgspec.json.decode(pipe.readline(), type=int)
    plan = decode_plan(pipe.readline())
    end_with_parent()
    take_path(plan.path)
    from harness.engine.attempt import AttemptFailed, run_attempt  # noqa: PLC0415
    from harness.levels.live.place import real_parts  # noqa: PLC0415
    from harness.sut.defects import variant_of  # noqa: PLC0415 - after the path is set

    try:
        run_attempt(real_parts(plan, subtask, variant=variant_of(plan.mutant)))
    except SutError as refusal:
        _say(subtask, refusal.what)
        return REFUSED
    except AttemptFailed as failure:
        _say(subtask, str(failure))
        return FAILED
    return DONE


def _say(subtask: int, words: str) -> None:
    """Write the last words; their further lines are indented, so that later output is not taken for them."""
    sys.stderr.write(f"subtask {subtask}: {indent(words, '  ').lstrip(' ')}\n")


_EXIT_S = 2.0
"""How long threads and exit handlers of user code may go on after the attempt."""


def end(code: int) -> None:
    """End this process with `code`, also if threads or exit handlers of user code go on: Python would wait for ever."""
    threading.Thread(target=_end_late, args=(code,), daemon=True).start()
    sys.exit(code)


def _end_late(code: int) -> None:
    pause(_EXIT_S)
    sys.stdout.flush()
    sys.stderr.flush()
    _end_now(code)
