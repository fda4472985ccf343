"""Checks history files for `floodmark check`, one at a time or in parallel, and formats the judgements.

Answers come in the order of the files; an unreadable file gives a complaint and does not stop the others. All formats
show the same verdict; the sentences come from the checkers and are only escaped here. Progress goes to standard error:
on a terminal a line that is redrawn, with `--verbose` one line for each tenth. `--quiet` shows none.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from harness.cli.history_files import HistoryFile
from harness.history.convert import convert
from harness.history.invariants import INVARIANTS
from harness.history.outside import OUTSIDE
from harness.history.read import read_whole
from harness.history.strict_json import integers_of_any_length
from harness.history.verdict import ANOMALIES_IN_FULL, Anomaly, InvariantVerdict, Judgement, Outcome
from harness.judge.checkers.consequences import with_consequences
from harness.judge.checkers.invariant import Invariant
from harness.judge.checkers.judge import Malformed
from harness.judge.checkers.outside.judge import SEEN_FROM_OUTSIDE, judge_history
from harness.judge.checkers.registry import CHECKERS
from harness.judge.checkers.second_opinion import SecondOpinion, second_opinion
from harness.judge.explanation.explain import explained_file
from harness.judge.explanation.text import anomaly_lines, closing_lines, events_of, rest_of
from harness.system.clock import monotonic_us
from harness.system.errors import Exit, HistoryError, UsageError, WorldError
from harness.system.pool import open_processes
from harness.system.whole_file import temporary_folder
from harness.testing.running import refuse_blind_judge

if TYPE_CHECKING:
    from harness.history.text import OnRead


_PATIENCE_US = 500_000
"""Progress is shown only if reading takes longer than this."""
_BETWEEN_US = 125_000
_WIPE = "\r\x1b[K"
_UNITS = ("B", "kB", "MB", "GB", "TB")
_THOUSAND = 1000


@contextmanager
def reading(name: str, *, quiet: bool, verbose: bool) -> Iterator[OnRead | None]:
    """The progress display for reading `name`; None: show none."""
    if quiet:
        yield None
    elif verbose:
        yield Tenths(name, sys.stderr)
    elif sys.stderr.isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb":
        moving = Moving(name, sys.stderr)
        try:
            yield moving
        finally:
            moving.wipe()
    else:
        yield None


class Tenths:
    """Prints a line for each tenth read. Mutable: remembers the last one."""

    def __init__(self, name: str, stream: TextIO) -> None:
        self._name = name
        self._stream = stream
        self._told = -1

    def __call__(self, done: int, total: int) -> None:
        tenth = 10 * done // total if total else 10
        if tenth > self._told:
            self._told = tenth
            self._stream.write(f"read    {_told(done, total)}  {self._name}\n")


class Moving:
    """Redraws one progress line on a terminal. Mutable: remembers when it was drawn."""

    def __init__(self, name: str, stream: TextIO, *, now_us: Callable[[], int] = monotonic_us) -> None:
        self._name = name
        self._stream = stream
        self._now_us = now_us
        self._next_us = now_us() + _PATIENCE_US
        self._drawn = False

    def __call__(self, done: int, total: int) -> None:
        now = self._now_us()
        if now < self._next_us and not (self._drawn and done == total):
            return
        self._next_us = now + _BETWEEN_US
        self._drawn = True
        columns = shutil.get_terminal_size().columns
        self._stream.write(_WIPE + f"read {_told(done, total)}  {self._name}"[: columns - 1])
        self._stream.flush()

    def wipe(self) -> None:
        """Erases the line, if it was drawn."""
        if self._drawn:
            self._stream.write(_WIPE)
            self._stream.flush()


def _told(done: int, total: int) -> str:
    share = 100 * done // total if total else 100
    amount, thousands = float(total), 0
    while amount >= _THOUSAND and thousands < len(_UNITS) - 1:
        amount /= _THOUSAND
        thousands += 1
    size = f"{amount:.{min(thousands, 1)}f} {_UNITS[thousands]}"
    return f"{share:3d} % of {size}" + ", checking" * (done == total)


Judged = Judgement | Malformed

_HELD_BACK = {Outcome.PASS, Outcome.NOT_CLAIMED}
"""Outcomes that need no notice of their own."""

_MARKUP = re.compile(r"[&\\`*_\[\]<>|#]")


def pretty(name: str, judged: Judged) -> Iterator[str]:
    """Lines for a terminal: the verdict, then each invariant with its anomalies explained, then what still holds."""
    yield f"{verdict_word(judged)}  {name}"
    for warning in judged.warnings:
        yield f"  warning: {warning}"
    if isinstance(judged, Malformed):
        yield from (f"  line {breach.line}: {breach.say}" for breach in judged.breaches)
        return
    for verdict in judged.invariants:
        why = f"  {_first_line(verdict.why)}" if verdict.why else ""
        seen = f" ({verdict.observed} observed)" if verdict.outcome is not Outcome.NOT_CLAIMED else ""
        yield f"  {verdict.invariant:<4} {verdict.outcome:<11}{seen}{why}".rstrip()
        for anomaly in _in_full(verdict):
            yield from (f"       {line}" for line in anomaly_lines(anomaly))
        if rest := rest_of(verdict):
            yield f"       {rest}"
    yield from (f"  {line}" for line in (*_restriction(judged), *closing_lines(judged)))
    counts = ", ".join(f"{count} {named.replace('_', ' ')}" for named, count in judged.accounting.items())
    yield f"  seen: {counts}"


def markdown(name: str, judged: Judged) -> Iterator[str]:
    """A section for a pull request: a table of invariants, and below it the explanations."""
    yield f"### {verdict_word(judged)}: {_cell(name)}"
    yield ""
    yield from (f"- warning: {_cell(warning)}" for warning in judged.warnings)
    if isinstance(judged, Malformed):
        yield from (f"- line {breach.line}: {_cell(breach.say)}" for breach in judged.breaches)
        return
    if judged.warnings:
        yield ""
    yield "| invariant | verdict | what was found |"
    yield "|---|---|---|"
    for verdict in judged.invariants:
        yield f"| {verdict.invariant} | {verdict.outcome} | {_cell(_first_line(verdict.why))} |"
        for anomaly in _in_full(verdict):
            yield f"| | {anomaly.kind} | {_cell(anomaly.say)} ({events_of(anomaly)}) |"
        if rest := rest_of(verdict):
            yield f"| | | {rest} |"
    yield ""
    told = [
        line
        for verdict in judged.invariants
        for anomaly in _in_full(verdict)
        for line in anomaly_lines(anomaly)
    ]
    # Indented, because a payload could close a fence.
    yield from (f"    {line}" for line in (*told, *_restriction(judged), *closing_lines(judged)))
    yield ""


def github(name: str, judged: Judged) -> Iterator[str]:
    """GitHub workflow commands, shown beside the file."""
    file = _property(name)
    if isinstance(judged, Malformed):
        for breach in judged.breaches:
            yield f"::error file={file},line={breach.line},title=malformed::{_data(breach.say)}"
        return
    for warning in judged.warnings:
        yield f"::warning file={file}::{_data(warning)}"
    for verdict in judged.invariants:
        for anomaly in _in_full(verdict):
            say = _data("\n".join(anomaly_lines(anomaly)))
            yield f"::error file={file},title={verdict.invariant} {anomaly.kind}::{say}"
        if rest := rest_of(verdict):
            yield f"::error file={file},title={verdict.invariant}::{rest}"
        if verdict.outcome not in _HELD_BACK | {Outcome.FAIL}:
            title = f"title={verdict.invariant} {verdict.outcome}"
            yield f"::notice file={file},{title}::{_data(_first_line(verdict.why))}"
    closing = (verdict_word(judged), *_restriction(judged), *closing_lines(judged))
    yield f"::notice file={file},title=floodmark::{_data(chr(10).join(closing))}"


def verdict_word(judged: Judged) -> str:
    """The verdict in capitals, the first word of the output."""
    return "MALFORMED" if isinstance(judged, Malformed) else judged.outcome.upper()


def _in_full(verdict: InvariantVerdict) -> Sequence[Anomaly]:
    return verdict.anomalies[:ANOMALIES_IN_FULL]


def _restriction(judged: Judgement) -> Sequence[str]:
    """Sentences about what was not checked: fewer than all invariants, or the inside of a job."""
    names = [verdict.invariant for verdict in judged.invariants]
    few = [] if len(names) == len(INVARIANTS) else [f"Checked only {' '.join(names)} (--invariant)."]
    return [*few, SEEN_FROM_OUTSIDE] if judged.view == OUTSIDE else few


def _first_line(text: str) -> str:
    """Cuts a traceback to its first and last line."""
    lines = text.strip().splitlines()
    return text if len(lines) <= 1 else f"{lines[0]} {lines[-1]}"


def _cell(text: str) -> str:
    """Escapes text, so that a payload cannot end a cell, open a tag or begin a link."""
    return _MARKUP.sub(lambda found: f"&#{ord(found[0])};", text).replace("\n", " ")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


_COLOURS = {
    Exit.VIOLATION: "red",
    Exit.USAGE: "red",
    Exit.INTERNAL: "red",
    Exit.UNDECIDED: "yellow",
    Exit.HOLD: "green",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The options by which each file is checked and printed."""

    invariants: tuple[str, ...]
    form: str
    quiet: bool
    verbose: bool
    second: bool = False
    """Whether the second judge is asked too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result for one file: the text of its judgement, or a complaint."""

    code: Exit
    text: str = ""
    complaint: str = ""


def answers(histories: Sequence[HistoryFile], wish: Wish, *, jobs: int) -> Generator[Answer]:
    """One answer for each history, in order, with `jobs` checked in parallel."""
    processes = min(jobs, len(histories))
    wish = wish if processes == 1 else replace(wish, quiet=True)
    died, fix = (
        "a worker process was killed while it checked a history",
        "use fewer --jobs if memory was short",
    )
    with open_processes(processes, is_fresh=True, died=died, fix=fix) as pool:
        yield from pool.map(partial(_answer, wish=wish), histories, most=1)


def _answer(histories: Sequence[HistoryFile], wish: Wish) -> Answer:
    (history,) = histories

    def judged_here(chosen: Sequence[Invariant]) -> Judged:
        with reading(history.name, quiet=wish.quiet, verbose=wish.verbose) as progress:
            return judge_history(history.path, checkers=chosen, progress=progress)

    return answer_by(judged_here, history, wish)


def answers_on(master: str, histories: Sequence[HistoryFile], wish: Wish) -> Generator[Answer]:
    """One answer for each history, in order, each checked a subtask at a time on the executors of `master`.

    Raises WorldError if the executors are not to be had.
    """
    from harness.levels.spark.checking import CHECKING, check_on_spark
    from harness.levels.spark.executors import open_executors

    with open_executors(master, settings=CHECKING) as executors:

        def judged_there(history: HistoryFile, chosen: Sequence[Invariant]) -> Judged:
            with _in_parquet(history.path) as parts:
                if parts is None:
                    return judge_history(history.path, checkers=chosen)
                done = check_on_spark(executors.session, parts, checkers=chosen, slots=executors.slots)
            if wish.verbose:
                click.echo(done.told(history.name), err=True)
            return done.judged

        for history in histories:
            yield answer_by(partial(judged_there, history), history, wish)


@contextmanager
def _in_parquet(path: Path) -> Iterator[Path | None]:
    """The history at `path` as executors read it: for the block, one stream lies beside itself as a folder of Parquet.

    None: it cannot be rewritten without loss, because it is malformed, cut off or seen from outside.
    """
    if path.suffix == ".parquet" or path.is_dir():
        yield path
        return
    with ExitStack() as kept:
        try:
            parts = kept.enter_context(temporary_folder("floodmark-check-", parent=path.parent)) / "history"
            whole = not convert(path, parts)
        except HistoryError:
            whole = False
        except OSError as error:
            message = f"{path} cannot be rewritten for executors in {path.parent}: {error.strerror or error}"
            fix = "make that folder writable, free disk space there, or convert it: python -m harness.history.convert"
            raise WorldError(message, fix=fix) from error
        yield parts if whole else None


def answer_by(judging: Callable[[Sequence[Invariant]], Judged], history: HistoryFile, wish: Wish) -> Answer:
    """The answer for one history, judged by `judging` with the chosen checkers."""
    refuse_blind_judge()
    chosen = [checker for checker in CHECKERS if checker.name in wish.invariants]
    with integers_of_any_length():
        second = None
        try:
            judged = judging(chosen)
            if isinstance(judged, Judgement):
                second = second_opinion(history.path, judged) if wish.second else None
                judged = with_consequences(judged, lambda: read_whole(history.path))
                judged = explained_file(judged, history.path)
        except (UsageError, WorldError) as error:
            return Answer(code=error.exit_code, complaint=f"{history.name}: {error}")
        code = judged.outcome.exit_code if isinstance(judged, Judgement) else Exit.USAGE
        if second and not second.agrees:
            code = Exit.INTERNAL
        return Answer(code=code, text=_worded(history.name, judged, second, code, wish.form))


def _worded(
    name: str, judged: Judgement | Malformed, second: SecondOpinion | None, code: Exit, form: str
) -> str:
    told = second.told if second else ()
    match form:
        case "json":
            document = judged.as_json() | ({"second": second.as_json()} if second else {})
            return json.dumps(document, separators=(",", ":"))
        case "markdown":
            return "\n".join([*markdown(name, judged), *(f"- {_cell(line.strip())}" for line in told)])
        case "github":
            level = "notice" if second and second.agrees else "error"
            lines = [
                f"::{level} file={_property(name)},title=second judge::{_data(line.strip())}" for line in told
            ]
            return "\n".join([*github(name, judged), *lines])
        case _:
            first, *others = pretty(name, judged)
            styled = click.style(first, fg=_COLOURS[code], bold=True)
            return "\n".join([styled, *others, *(f"  {line}" for line in told)])
