"""The process of one attempt at level `live`: `python -m harness.levels.live.worker`, told what to do by a pipe.

Answers to Spark's Python worker. Invariant: it ends when its work does, or when the pipe closes because the
harness is gone; nothing of it stays behind.
"""

from __future__ import annotations

import os
import sys
import threading

import msgspec

from harness.runs.plan import decode_plan

__all__ = ["FAILED", "main"]

FAILED = 1
"""Exit code of an attempt that reported its failure; it may be started again."""


def main() -> int:
    """Read the subtask and the plan, one line each, then be that subtask."""
    pipe = sys.stdin.buffer
    subtask = msgspec.json.decode(pipe.readline(), type=int)
    plan = decode_plan(pipe.readline())
    threading.Thread(target=_end_with_harness, args=(pipe.fileno(),), daemon=True).start()
    sys.path[:0] = plan.path
    from harness.defects import variant_of  # noqa: PLC0415 - after the path is set
    from harness.engine.attempt import AttemptFailed, run_attempt  # noqa: PLC0415
    from harness.levels.live.place import real_parts  # noqa: PLC0415

    try:
        run_attempt(real_parts(plan, subtask, variant=variant_of(plan.mutant)))
    except AttemptFailed as failure:
        sys.stderr.write(f"subtask {subtask}: {failure}\n")
        return FAILED
    return 0


def _end_with_harness(pipe: int) -> None:
    """The harness writes no more; end of file means that it died.

    Reads the bare descriptor: a thread inside a buffered reader would abort the interpreter's exit.
    """
    os.read(pipe, 1)
    os._exit(FAILED)


if __name__ == "__main__":
    sys.exit(main())
