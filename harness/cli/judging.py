"""Judges history files for `check`, one after the other or several at a time, and words what was found.

Invariant: answers come in the order of the files, whoever is done first; a file that fails to be read while the others
are judged is a complaint of its own, and stops nothing.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace

import click

from harness.checkers.judge import Malformed, judge_file
from harness.checkers.registry import CHECKERS
from harness.cli import judgement_text
from harness.cli.history_files import HistoryFile
from harness.cli.reading import reading
from harness.errors import Exit, UsageError, WorldError
from harness.explanation.explain import explained_file
from harness.history.strict_json import integers_of_any_length
from harness.verdict import Judgement

__all__ = ["Answer", "Wish", "answers"]

_COLOURS = {Exit.VIOLATION: "red", Exit.USAGE: "red", Exit.UNDECIDED: "yellow", Exit.HOLD: "green"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How each file is to be judged and told."""

    invariants: tuple[str, ...]
    form: str
    quiet: bool
    verbose: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is to be said of one file: a judgement, or a complaint where there is none."""

    code: Exit
    text: str = ""
    complaint: str = ""


def answers(histories: Sequence[HistoryFile], wish: Wish, *, jobs: int) -> Generator[Answer]:
    """One answer for each history, in their order, `jobs` of them worked out at a time."""
    if min(jobs, len(histories)) == 1:
        for history in histories:
            yield _answer(history, wish)
        return
    with _pool(min(jobs, len(histories))) as pool:
        silent = replace(wish, quiet=True)
        under_way = [pool.submit(_answer, history, silent) for history in histories]
        yield from (judged.result() for judged in under_way)


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with the block, however it ends; a Ctrl-C is this process's to answer."""
    pool = ProcessPoolExecutor(
        jobs,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_IGN),
    )
    try:
        yield pool
        pool.shutdown()
    except BrokenProcessPool as broken:
        message = "a process that judged a history was killed from outside"
        raise WorldError(message, fix="give fewer --jobs, if memory was short") from broken
    finally:
        for child in multiprocessing.active_children():
            child.terminate()
        pool.shutdown()


def _answer(history: HistoryFile, wish: Wish) -> Answer:
    chosen = [checker for checker in CHECKERS if checker.name in wish.invariants]
    with integers_of_any_length():
        try:
            with reading(history.name, quiet=wish.quiet, verbose=wish.verbose) as progress:
                judged = judge_file(history.path, checkers=chosen, progress=progress)
                if isinstance(judged, Judgement):
                    judged = explained_file(judged, history.path)
        except UsageError as error:
            return Answer(code=Exit.USAGE, complaint=f"{history.name}: {error}")
        code = _code(judged)
        return Answer(code=code, text=_worded(history.name, judged, code, wish.form))


def _worded(name: str, judged: Judgement | Malformed, code: Exit, form: str) -> str:
    match form:
        case "json":
            return json.dumps(judged.as_json(), separators=(",", ":"))
        case "markdown":
            return "\n".join(judgement_text.markdown(name, judged))
        case "github":
            return "\n".join(judgement_text.github(name, judged))
        case _:
            first, *others = judgement_text.pretty(name, judged)
            return "\n".join([click.style(first, fg=_COLOURS[code], bold=True), *others])


def _code(judged: Judgement | Malformed) -> Exit:
    return judged.outcome.exit_code if isinstance(judged, Judgement) else Exit.USAGE
