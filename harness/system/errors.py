"""The errors of Floodmark: one tree, named by who has to fix them.

Every error says what happened, where, and what to do; each has the exit code of the command line
(`docs/reference/command-line.md`). A violated invariant is a verdict, never an exception.

    FloodmarkError          3   any error of Floodmark
    +- UsageError           4   a command, option or name that does not exist
    |  +- CannotHere        4   a fault that this level, world or job cannot show
    +- ScenarioError        4   a scenario file with mistakes, all of them at once
    +- HistoryError         4   a history that breaks the format, all breaches at once
    +- SutError             4   the system under test cannot be loaded or driven
    +- NothingRan           5   the selection was empty
    +- ReaderGone           2   the reader of standard output has closed the pipe
    +- WorldError          11   the machine: no engine, no server, a taken port, a full disk
    |  +- OutlivesSigkill  11   processes that cannot be killed
    +- HarnessError         3   a defect of Floodmark itself
       +- BlindHarness      3   it overlooks a canary, so none of its verdicts counts
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from traceback import format_exception


class Exit(IntEnum):
    """The exit codes of the command line, as in `docs/reference/command-line.md`."""

    HOLD = 0
    VIOLATION = 1
    INTERRUPTED = 2
    INTERNAL = 3
    USAGE = 4
    NOTHING_RAN = 5
    UNDECIDED = 10
    ENVIRONMENT = 11


def worst_code(codes: Iterable[Exit]) -> Exit:
    """The exit code of several runs: an internal error beats a violation, that undecided, and that a hold."""
    found, order = set(codes), (Exit.INTERNAL, Exit.VIOLATION, Exit.UNDECIDED)
    return next((code for code in order if code in found), Exit.HOLD)


class FloodmarkError(Exception):
    """Any error of Floodmark: `what` happened and where, and the `fix`, one sentence each."""

    exit_code = Exit.INTERNAL

    def __init__(self, what: str, *, fix: str = "") -> None:
        super().__init__(what if not fix else f"{what}\n  fix: {fix}")
        self.what = what
        self.fix = fix


class UsageError(FloodmarkError):
    """A command, an option or a name that does not exist; the user has to correct it."""

    exit_code = Exit.USAGE


class CannotHere(UsageError):
    """A fault that this level, world or job cannot show; found before the run starts."""

    def __init__(self, what: str, *, fix: str = "", need: str = "") -> None:
        super().__init__(what, fix=fix)
        self.need = need
        """What the scenario needs and the job lacks, in a word or two (`Kafka`); empty: something else is missing."""


class ScenarioError(FloodmarkError):
    """A scenario that cannot be run as written; its author has to correct it."""

    exit_code = Exit.USAGE


class HistoryError(FloodmarkError):
    """A history file that breaks the rules of `docs/reference/history.md`; it is not judged."""

    exit_code = Exit.USAGE


class SutError(FloodmarkError):
    """A system under test that cannot be loaded or driven; its author has to correct it."""

    exit_code = Exit.USAGE


class NothingRan(FloodmarkError):
    """The selection was empty, so nothing was tested."""

    exit_code = Exit.NOTHING_RAN


class ReaderGone(FloodmarkError):
    """The reader of standard output has gone (`| head`); the output is incomplete, so there is no verdict."""

    exit_code = Exit.INTERRUPTED


class WorldError(FloodmarkError):
    """The machine lacks something that a world needs; the fix is a command to type."""

    exit_code = Exit.ENVIRONMENT


class OutlivesSigkill(WorldError):
    """Processes that have not ended after SIGKILL; `what` says whose they are, and that they have not ended."""

    def __init__(self, what: str, pids: Iterable[int]) -> None:
        super().__init__(
            f"{what} after SIGKILL: {', '.join(map(str, pids))}",
            fix="see what they wait for (`ps -o pid,stat,wchan,cmd`), and end them",
        )


class HarnessError(FloodmarkError):
    """A defect of Floodmark itself; please report it."""


class BlindHarness(HarnessError):
    """The harness overlooks a canary, so none of its verdicts counts."""


def ends_one_run(error: Exception) -> bool:
    """Whether it is a defect of Floodmark itself that leaves the other runs as they are."""
    return not isinstance(error, FloodmarkError) or (
        isinstance(error, HarnessError) and not isinstance(error, BlindHarness)
    )


def as_internal(error: Exception) -> str:
    """What to tell of an error that `ends_one_run`: what it says, and a traceback unless the harness raised it."""
    if isinstance(error, HarnessError):
        return str(error)
    lines = "".join(format_exception(error)).rstrip()
    return f"internal error ({type(error).__name__}: {error})\n{lines}\n  fix: please report it, with these lines"
