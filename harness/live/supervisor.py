"""The supervisor of level `live`: one process a subtask, started again when it dies.

Answers to Spark's task scheduler in small. Invariant: a subtask has one process at a time, its successor
starts only after it has been reaped.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.execution import ATTEMPTS_MAX, ExecutionState
from harness.plan import RunPlan, encode_plan

__all__ = ["LiveRunner", "Supervisor"]

_STOP_S = 3.0


@dataclass(slots=True, kw_only=True)
class _Worker:
    """One subtask's process; mutable, for the supervisor only."""

    subtask: int
    process: subprocess.Popen[bytes] | None = None
    failures: int = 0
    finished: bool = False


class LiveRunner:
    """Starts runs at level `live`; `note_process` is told the pid of everything that is started."""

    def __init__(self, *, note_process: Callable[[int], None] = lambda pid: None) -> None:
        self._note_process = note_process

    def start(self, plan: RunPlan, *, subtasks: int, logs: Path) -> Supervisor:
        """One process a subtask."""
        return Supervisor(plan, subtasks=subtasks, logs=logs, note_process=self._note_process)


class Supervisor:
    """One run; an `Execution`."""

    def __init__(
        self, plan: RunPlan, *, subtasks: int, logs: Path, note_process: Callable[[int], None]
    ) -> None:
        self._note_process = note_process
        self._plan = encode_plan(plan)
        self._logs = logs
        self._workers = [_Worker(subtask=subtask) for subtask in range(subtasks)]
        for worker in self._workers:
            self._start(worker)

    def _start(self, worker: _Worker) -> None:
        with self._log(worker).open("ab") as log:
            worker.process = subprocess.Popen(
                [sys.executable, "-m", "harness.live.worker"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C at the terminal is the harness's to handle
            )
        self._note_process(worker.process.pid)
        orders = msgspec.json.encode(worker.subtask) + b"\n" + self._plan + b"\n"
        # A plan may be larger than a pipe holds, and a worker that hangs must not hang its supervisor.
        threading.Thread(target=_hand_over, args=(worker.process, orders), daemon=True).start()

    def _log(self, worker: _Worker) -> Path:
        return self._logs / f"worker-{worker.subtask:03d}.log"

    def poll(self) -> ExecutionState:
        """Reap, restart, and say how it stands."""
        for worker in self._workers:
            code = None if worker.process is None else worker.process.poll()
            if code is None or worker.finished:
                continue
            self._let_go(worker)
            worker.finished = code == 0
            if code != 0:
                worker.failures += 1
                if worker.failures >= ATTEMPTS_MAX:
                    return ExecutionState(running=False, error=self._last_words(worker))
                self._start(worker)
        return ExecutionState(running=not all(worker.finished for worker in self._workers))

    def _last_words(self, worker: _Worker) -> str:
        lines = self._log(worker).read_text(errors="replace").strip().splitlines()
        said = lines[-1] if lines else "it said nothing"
        return f"subtask {worker.subtask} failed {worker.failures} times; the last time: {said}"

    def stop(self) -> None:
        """Kill what still runs, and reap it."""
        for worker in self._workers:
            if worker.process is not None and worker.process.poll() is None:
                worker.process.kill()
        for worker in self._workers:
            if worker.process is not None:
                worker.process.wait(timeout=_STOP_S)
                self._let_go(worker)

    def _let_go(self, worker: _Worker) -> None:
        process = worker.process
        if process is not None and process.stdin is not None and not process.stdin.closed:
            with suppress(BrokenPipeError):  # it had died before it read the plan
                process.stdin.close()


def _hand_over(process: subprocess.Popen[bytes], orders: bytes) -> None:
    """Write the worker's orders into its pipe, which stays open: its end would say that the harness died."""
    pipe = process.stdin
    assert pipe is not None, "the worker was started with a pipe"
    with suppress(BrokenPipeError, ValueError):  # it died at once, or was stopped meanwhile; poll sees that
        pipe.write(orders)
        pipe.flush()
