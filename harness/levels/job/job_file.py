"""The job file: how a user's job is started, what it reads, where it writes and what it claims (`job.toml`).

Invariant: `read_job` returns a complete and consistent file, or raises all its problems at once, each with file, line
and column. Paths in it are relative to the file.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from harness.faults.parts.parts import Breach, Part, refuse
from harness.faults.parts.values import Duration, Whole
from harness.scenario.mistakes import mistakes_in
from harness.scenario.yaml_text import FieldPositions, Problem, ScenarioProblems, problem_at
from harness.system.errors import UsageError

_Text = Annotated[str, Field(min_length=1)]
_Column = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_$]*$")]


class JobStop(Part):
    """How the harness stops the job."""

    signal: Literal["TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "KILL"] = Field(
        default="TERM", description="The signal that asks it to end."
    )
    grace: Duration = Field(
        default=10_000, description="How long it may take to end; then it is killed with all its processes."
    )


class Job(Part):
    """The program."""

    command: tuple[_Text, ...] | None = Field(
        default=None,
        description="The command, a list of words; no shell is in between. `python` is the one that runs Floodmark; "
        "if the job's packages are in another environment, name that one's `python` with its path.",
    )
    callable: _Text | None = Field(
        default=None,
        description="In place of a command: `module:function`, which is called in a fresh process.",
    )
    env: dict[str, str] = Field(
        default={},
        description="Further environment variables; {sink.url}, {sink.jdbc}, {sink.host}, {lookups.user}, "
        "{source.folder}, {state} and the like are filled in.",
    )
    ends: Literal["exit", "settles", "file"] = Field(
        default="exit",
        description="How it ends: exit: by itself, with code 0; settles: never, it goes on waiting; file: it makes the "
        "file named by FLOODMARK_JOB_DONE_FILE.",
    )
    starts: Annotated[Whole, Field(ge=1, le=100)] = Field(
        default=6,
        description="How many times it is started at most; each exit before the end is followed by a restart.",
    )
    stop: JobStop = Field(default=JobStop(), description="How it is stopped.")
    engine: Literal["auto", "spark", "plain"] = Field(
        default="auto",
        description="Whether it has workers and executors of Spark. auto: if a driver of Spark is in the calm twin.",
    )
    cluster: Annotated[Whole, Field(ge=0, le=8)] = Field(
        default=0,
        description="A standalone Spark cluster of so many workers for each run, whose master is {cluster.master} in "
        "`env`; 0: none.",
    )
    scenarios: tuple[_Text, ...] = Field(
        default=(),
        description="The job scenarios that `pytest job.toml` runs; empty: all that have the tag `gate` and that the "
        "job can meet.",
    )

    def breaches(self) -> Iterator[Breach]:
        if (self.command is None) == (self.callable is None):
            say = "a job has either a `command` or a `callable`"
            hint = 'write `command = ["python", "job.py"]`, say' if self.command is None else "take one out"
            yield Breach(path=("command",), say=say, hint=hint)
        if self.command is not None and not self.command:
            yield Breach(
                path=("command",), say="`job.command` is empty", hint='write ["python", "job.py"], say'
            )
        if self.callable is not None and ":" not in self.callable:
            say = f"`job.callable` cannot be {self.callable!r}"
            yield Breach(path=("callable",), say=say, hint='write "module:function"')


class SourceFields(Part):
    """What the fields of a record are called."""

    id: _Text = Field(default="id", description="The field that tells a record from all others.")
    key: _Text = Field(default="key", description="The field by which the job looks up.")
    ts: _Text = Field(default="ts", description="The field of the record's time, in milliseconds.")


class SourcePlace(Part):
    """Where the job reads its records."""

    kind: Literal["folder", "file", "table", "kafka"] = Field(
        default="folder",
        description="folder: files of JSON lines; file: one growing file of them; table: `inbox`; kafka: a topic.",
    )
    fields: SourceFields = Field(
        default=SourceFields(), description="What the fields of a record are called."
    )
    partitions: Annotated[Whole, Field(ge=1, le=64)] = Field(
        default=1, description="How many partitions the source has; order is claimed inside one."
    )
    gaps: bool = Field(
        default=False,
        description="Whether rows of a `table` are committed in another order than that of their `pos`, as by several "
        "writers: in each run but the calm twin some then come after others that stand behind them.",
    )
    records: _Text | None = Field(
        default=None,
        description="A file of JSON lines with your own records, in place of those that the seed draws; one that the "
        'job is meant to fail on has `"fails": true`.',
    )

    def breaches(self) -> Iterator[Breach]:
        if self.gaps and self.kind != "table":
            say = f"a source of kind `{self.kind}` has no gaps that fill later"
            yield Breach(path=("gaps",), say=say, hint="take it out, or choose kind table")


class LookupTables(Part):
    """The tables that the job asks; absent: `customer(k, name, city, tier)`."""

    schema_file: _Text | None = Field(
        default=None, alias="schema", description="A file of SQL that makes your own tables."
    )
    data: tuple[_Text, ...] = Field(
        default=(),
        description="Files that fill them: SQL, or CSV or JSON lines named after their table.",
    )


class SinkTable(Part):
    """The table that the job writes to."""

    table: _Column = Field(default="enriched", description="The table; made by `schema`, or by the job.")
    schema_file: _Text | None = Field(
        default=None, alias="schema", description="A file of SQL that makes the table."
    )
    id: Annotated[tuple[_Column, ...], Field(min_length=1)] = Field(
        default=("id",),
        description="The column (or columns) with the record's id; where rows are of keys, those of the key.",
    )
    rows: Literal["record", "key"] | None = Field(
        default=None,
        description="What a row is of. record: one record; key: many records, as a count, a sum, a window or the "
        "newest row: it may be rewritten, and the finished table must be the expected one, whole. Absent: record, or "
        "key if the calm twin shows that.",
    )
    key: str = Field(default="k", description="The column with the record's key; empty: none.")
    values: tuple[_Column, ...] = Field(
        default=("name", "city", "tier"),
        description="The columns whose values are judged; none that differs from run to run (times, sessions).",
    )
    write: Literal["append", "replace", "upsert"] = Field(
        default="append",
        description="What the job may do to a row that is there. append: write it again equal; replace: also take it "
        "away, if it is back in the end; upsert: also give it other values, if the last are right. Of rows of keys "
        "it is not asked.",
    )
    j: str = Field(
        default="", description="The column that numbers several rows of one record, from 0; empty: none."
    )
    dead_letters: str = Field(
        default="", description="A table of yours for records that failed for good; empty: none."
    )


class Claims(Part):
    """What the job claims, and is judged by."""

    delivery: Literal["exactly-once", "at-least-once", "at-most-once"] = Field(
        default="exactly-once", description="at-least-once allows doubles, at-most-once losses."
    )
    order: Literal["none", "source", "key"] = Field(
        default="none",
        description="In which order rows become visible: of the source's partition, or of a key in it.",
    )
    fenced: bool | None = Field(
        default=None,
        description="Whether a start has no effect once a later one has had one; absent: unless at-least-once.",
    )
    expected: _Text = Field(
        default="calm",
        description="What the table must hold. calm: what the job itself writes undisturbed; none: values are not "
        "judged; `module:function`: your own function of a record and its rows, or of all records where rows are of "
        "keys.",
    )

    @property
    def is_fenced(self) -> bool:
        """Its `fenced`, or the default of its delivery."""
        return self.delivery != "at-least-once" if self.fenced is None else self.fenced


class JobFile(Part):
    """A whole job file."""

    job: Job = Field(description="The program.")
    source: SourcePlace = Field(default=SourcePlace(), description="What it reads.")
    lookups: LookupTables = Field(default=LookupTables(), description="The tables that it asks.")
    sink: SinkTable = Field(default=SinkTable(), description="The table that it writes to.")
    claims: Claims = Field(default=Claims(), description="What it claims.")
    folder: Path = Field(default=Path(), exclude=True)
    """The folder of the file: the job's working folder, and what its paths are relative to."""

    def breaches(self) -> Iterator[Breach]:
        yield from of_keys_breaches(self)

    @property
    def title(self) -> str:
        """The command in one line, or the callable."""
        return shlex.join(self.job.command) if self.job.command else str(self.job.callable)

    def path(self, name: str) -> Path:
        """A path of the file."""
        return (self.folder / name).absolute()


def of_keys_breaches(job: JobFile) -> Iterator[Breach]:
    """What a job whose rows are of keys cannot claim, or have judged."""
    sink, claims = job.sink, job.claims
    if sink.rows != "key":
        return
    if sink.j:
        say, hint = "`sink.j` numbers the rows of a record", "name it in `sink.id`, as a part of the key"
        yield Breach(path=("sink", "j"), say=say, hint=hint)
    if sink.dead_letters:
        say = "a record that goes to the dead letters under a fault is rightly not in the row of its key"
        yield Breach(
            path=("sink", "dead_letters"), say=say, hint="take it out: such a record then counts as lost"
        )
    if claims.delivery != "exactly-once":
        say = f"rows of keys do not show which doubles or losses `{claims.delivery}` allows"
        yield Breach(path=("claims", "delivery"), say=say, hint='write delivery = "exactly-once"')
    if claims.order != "none":
        yield Breach(
            path=("claims", "order"), say="rows of keys show no order of records", hint="take it out"
        )
    if claims.expected == "none":
        say = "of rows of keys only the values are judged"
        yield Breach(path=("claims", "expected"), say=say, hint='write "calm", or "module:function"')
    if claims.expected == "calm" and job.job.ends == "settles" and job.job.engine != "spark":
        say = "nothing shows when the calm twin of a job that goes on waiting has counted its last record"
        hint = "let the job end by itself, or state the table: expected = 'module:function'"
        yield Breach(path=("job", "ends"), say=say, hint=hint)


def job_of_command(text: str) -> JobFile:
    """The job of a bare command or of a `module:function`, all else by default, in the current folder."""
    words = _words(text)
    is_callable = len(words) == 1 and re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", text) is not None
    job = Job(callable=text) if is_callable else Job(command=tuple(words))
    return JobFile(job=job, folder=Path.cwd())


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--job {text!r} is no command: {error}", fix="close the quotes") from error
    if not words:
        raise UsageError("--job is empty", fix="name a job.toml or a command: --job 'python job.py'")
    return words


def read_job(path: Path) -> JobFile:
    """The job in the file `path`. Raises ScenarioProblems with all its problems, UsageError if it cannot be read."""
    fix = "name a file that exists; `floodmark init --job` writes one"
    text = text_in(path, named=f"the job file {path}", fix=fix)
    lines = text.split("\n")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioProblems([_not_toml(error, file=str(path), lines=lines)]) from error
    try:
        # `folder` is no field of a file.
        if "folder" in data:
            refuse("JobFile", [Breach(path=("folder",), say="unknown field `folder`", hint="take it out")])
        read = JobFile.model_validate(data)
    except ValidationError as error:
        places = _places(lines)
        raise ScenarioProblems(
            problem_at(
                places.of(mistake.path, name=mistake.name),
                file=str(path),
                lines=lines,
                say=mistake.say,
                hint=mistake.hint,
            )
            for mistake in mistakes_in(error, data, root=JobFile)
        ) from error
    return read.model_copy(update={"folder": path.absolute().parent})


def text_in(path: Path, *, named: str, fix: str) -> str:
    """The text of a user's file. Raises UsageError, in which the file is called `named`, if it cannot be read."""
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"{named} cannot be read: {why}", fix=fix) from error


def _not_toml(error: tomllib.TOMLDecodeError, *, file: str, lines: list[str]) -> Problem:
    told = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", str(error))
    say, line, column = told.groups() if told else (str(error), None, None)
    place = (int(line), int(column)) if line and column else (len(lines), len(lines[-1]) + 1)
    hint = "texts stand in quotes, lists in [ ]" if "value" in say.lower() else ""
    return problem_at(place, file=file, lines=lines, say=f"this is not TOML: {say}", hint=hint)


_HEADING = re.compile(r"^\s*\[\s*([\w.\"-]+)\s*\]")
_KEY = re.compile(r"^\s*([\w.-]+|\"[^\"]*\")\s*=\s*")
_INNER = re.compile(r"(?:[{,]\s*)([\w-]+)\s*=\s*")


def _places(lines: list[str]) -> FieldPositions:
    """Where the tables and keys of a TOML text stand; of an inline table its keys too."""
    places = FieldPositions()
    table: tuple[str, ...] = ()
    for number, line in enumerate(lines, start=1):
        if heading := _HEADING.match(line):
            table = tuple(part.strip('"') for part in heading[1].split("."))
            places.keys[table] = (number, heading.start(1) + 1)
        elif key := _KEY.match(line):
            path = (*table, *(part.strip('"') for part in key[1].split(".")))
            places.keys[path] = (number, key.start(1) + 1)
            places.values[path] = (number, key.end() + 1)
            for inner in _INNER.finditer(line, key.end()):
                places.keys[(*path, inner[1])] = (number, inner.start(1) + 1)
                places.values[(*path, inner[1])] = (number, inner.end() + 1)
    return places
