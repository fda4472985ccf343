"""Carries out `floodmark conform`: judges each program, writes certificates and the page side by side, and prints.

Invariant: the exit code follows from the programs that the command line names; those put beside are only shown, unless
there is nothing else.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

import click

from harness.cli.certifying import fresh_folder
from harness.cli.reported_runs import REPORTS
from harness.conform.cases_judged import Asked
from harness.conform.conclusion import ConformCase
from harness.conform.operator_judged import OperatorJudged, judge_operator, protocol_certificate
from harness.conform.oracle.program import FLINKS, find_oracle
from harness.conform.protocol.program import Limits
from harness.conform.script_difference import serving_command
from harness.scenario.certificate import CERTIFICATE
from harness.scenario.order import new_run_id
from harness.system.clock import monotonic_us, utc_now
from harness.system.errors import Exit, NothingRan, SutError, UsageError, WorldError, worst_code
from harness.system.json_types import Json, JsonView
from harness.system.whole_file import disk_errors_told, write_whole
from harness.world.settings import WorldSettings
from reports.certificate_write import write_certificate
from reports.side_by_side import write_side_by_side


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """One that is ours to serve."""

    label: str
    asks: str
    system: str = ""
    """Its name for `floodmark sut serve`."""
    flink: str = ""
    """The release of a real Flink; empty for the others."""


BESIDE: Mapping[str, Implementation] = {
    "reference": Implementation(label="reference, strict", asks="strict", system="reference"),
    "reference-flink": Implementation(label="reference, flink", asks="flink", system="reference"),
    "flip-12": Implementation(label="FLIP-12's design", asks="strict", system="reference-emitter"),
    **{
        f"flink-{line}": Implementation(label=f"Flink {release}", asks="flink", flink=release)
        for line, release in FLINKS.items()
    },
}
"""The implementations that `floodmark conform --beside` accepts."""


def command_of(one: Implementation, settings: WorldSettings) -> Sequence[str]:
    """The command line that serves it. Raises WorldError if it is not set up."""
    return find_oracle(settings, version=one.flink) if one.flink else serving_command(one.system)


FAILED_TOLD = 3
"""So many failed cases are printed in full; all are in the report."""
FAILED_NAMED = 15
"""So many are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformRequest:
    """What the command line asks for."""

    command: tuple[str, ...]
    profile: str
    seed: int
    scripts: int
    beside: tuple[str, ...]
    others: tuple[str, ...]
    label: str | None
    answer_s: float
    report: Path | None
    form: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """One program that was judged."""

    judged: OperatorJudged
    folder: Path
    took_s: float
    own: bool
    """Whether the command line names it, so that it decides the exit code."""


def carry_out(wanted: ConformRequest) -> int:
    """Judges, writes and prints; returns the exit code."""
    own = _own(wanted)
    names = _beside_names(wanted)
    if not own and not names:
        raise NothingRan(
            "there is nothing to judge", fix="floodmark conform -- YOUR COMMAND; or add --beside all"
        )
    folder = fresh_folder(
        wanted.report or REPORTS / f"{new_run_id()}-conform", files=(CERTIFICATE, "conform.json")
    )
    columns: list[_Column] = []
    absent: dict[str, str] = {}
    mute = False
    for number, asked in enumerate(own):
        place = folder if number == 0 else folder / _slug(asked.label)
        try:
            columns.append(_judged(asked, place, own=True))
        except SutError as error:
            if len(own) + len(names) == 1:
                raise
            mute = True
            absent[asked.label] = str(error).partition("\n")[0]
    for name in names:
        one = BESIDE[name]
        try:
            command = command_of(one, WorldSettings.from_environment())
        except WorldError as error:
            absent[one.label] = str(error.fix or error.what)
            continue
        asked = _asked(wanted, label=one.label, argv=command, asks=one.asks)
        asked = replace(asked, limits=Limits(), beside=name)  # a Java machine may need its time
        columns.append(_judged(asked, folder / _slug(name), own=not own))
    document = _document(columns, absent, wanted, folder)
    if len(columns) + len(absent) > 1:
        write_side_by_side(document, folder / "side-by-side.html")
    listed = folder / "conform.json"
    with disk_errors_told(f"{listed} could not be written"):
        write_whole(listed, json.dumps(document, indent=1) + "\n")
    click.echo(
        json.dumps(document, separators=(",", ":")) if wanted.form == "json" else "\n".join(_lines(document))
    )
    codes = [_code(column.judged) for column in columns if column.own]
    if Exit.INTERNAL in codes:
        click.echo("floodmark: the judges disagree, as the certificate says; please report it", err=True)
        return Exit.INTERNAL
    code = worst_code(codes)
    return Exit.USAGE if mute and code is not Exit.VIOLATION else code


def _code(judged: OperatorJudged) -> Exit:
    if any(case.second == "differs" for case in judged.cases):
        return Exit.INTERNAL
    if judged.failed or judged.counts["not run"]:
        return Exit.VIOLATION
    return Exit.HOLD if judged.holds else Exit.UNDECIDED


# -------------------------------------------------------------------------------------- what is to be judged


def _own(wanted: ConformRequest) -> list[Asked]:
    named = [("", wanted.command)] if wanted.command else []
    for other in wanted.others:
        label, sign, command = other.partition("=")
        if not sign or not label.strip() or not command.strip():
            raise UsageError(
                f"--also {other!r} is not LABEL=COMMAND", fix="for example --also mine='node op.js'"
            )
        named.append((label.strip(), tuple(shlex.split(command))))
    if wanted.label and not wanted.command:
        raise UsageError("--label names COMMAND, and there is none", fix="add -- COMMAND")
    return [
        _asked(wanted, label=label or wanted.label or Path(argv[-1]).name, argv=argv, asks=wanted.profile)
        for label, argv in named
    ]


def _asked(wanted: ConformRequest, *, label: str, argv: Sequence[str], asks: str) -> Asked:
    return Asked(
        label=label,
        argv=argv,
        asks=asks,
        yardstick=wanted.profile,
        seed=wanted.seed,
        scripts=wanted.scripts,
        limits=Limits(start_s=3 * wanted.answer_s, answer_s=wanted.answer_s),
    )


def _beside_names(wanted: ConformRequest) -> list[str]:
    if "all" in wanted.beside:
        return [*BESIDE]
    for name in wanted.beside:
        if name not in BESIDE:
            close = get_close_matches(name, BESIDE, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(BESIDE)}"
            raise UsageError(f"there is no implementation {name!r} to put beside", fix=hint)
    return list(dict.fromkeys(wanted.beside))


def _slug(label: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in label) or "program"


# --------------------------------------------------------------------------------------------- judging, writing


def _judged(asked: Asked, folder: Path, *, own: bool) -> _Column:
    begun_us = monotonic_us()
    count = 0

    def heard(_case: ConformCase) -> None:
        nonlocal count
        count += 1
        if sys.stderr.isatty():
            click.echo(f"\r{asked.label}: {count} cases", nl=False, err=True)

    judged = judge_operator(asked, heard=heard)
    if sys.stderr.isatty():
        click.echo("\r\033[K", nl=False, err=True)
    took_s = (monotonic_us() - begun_us) / 1e6
    with disk_errors_told(f"the certificate could not be written to {folder}"):
        certificate = protocol_certificate(
            judged, folder, made_at=utc_now().isoformat(timespec="seconds"), took_s=took_s
        )
    write_certificate(certificate, folder)
    return _Column(judged=judged, folder=folder, took_s=took_s, own=own)


def _document(
    columns: Sequence[_Column], absent: Mapping[str, str], wanted: ConformRequest, folder: Path
) -> Json:
    return {
        "judged_by": wanted.profile,
        "seed": wanted.seed,
        "scripts_per_mode": wanted.scripts,
        "columns": [
            {
                **column.judged.as_json(),
                "own": column.own,
                "took_s": round(column.took_s, 1),
                "page": (column.folder / "index.html").relative_to(folder).as_posix(),
                "folder": str(column.folder),
            }
            for column in columns
        ],
        "absent": [{"label": label, "fix": fix} for label, fix in absent.items()],
        "page": str(folder / ("side-by-side.html" if len(columns) + len(absent) > 1 else "index.html")),
    }


# ----------------------------------------------------------------------------------------------------- printing


def _lines(document: JsonView) -> Iterator[str]:
    for column in document["columns"]:
        yield from _of_column(column)
    for one in document["absent"]:
        yield f"NOT JUDGED  {one['label']}: {one['fix']}"
    yield f"page     {document['page']}"


def _of_column(column: JsonView) -> Iterator[str]:
    counts = column["counts"]
    word = "PASS" if column["holds"] else "FAIL" if counts["fail"] or counts["not run"] else "NOTHING SHOWN"
    told = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
    judged_by = f"judged by {column['judged_by']}"
    if column["asked_to_serve"] != column["judged_by"]:
        judged_by += f", serving {column['asked_to_serve']}"
    yield f"{word}  {column['label']} ({column['name']} {column['version']}, {judged_by}): {told}"
    failed = column["failed"]
    if not column["own"]:
        known = dict.fromkeys(one["known"] for one in failed)
        for number in known:
            mine = [one for one in failed if one["known"] == number]
            yield f"  {number or 'not explained'}: {len(mine)} cases. {mine[0]['explained']}".rstrip()
        return
    for one in failed[:FAILED_TOLD]:
        yield f"  {one['name']}: {one['claim']}"
        yield f"    {one['why']}"
        if one["explained"]:
            yield f"    known: {one['known']}, {one['explained']}"
        yield from (f"    expected  {line}" for line in one["expected"] or ["nothing"])
        yield from (f"    came      {line}" for line in one["came"] or ["nothing"])
        yield f"    to paste into {one['paste_into']}:"
        yield from (f"{line}" for line in one["to_paste"].splitlines())
    yield from (f"  {one['name']}: {one['claim']}" for one in failed[FAILED_TOLD:FAILED_NAMED])
    if len(failed) > FAILED_NAMED:
        yield f"  {len(failed) - FAILED_NAMED} more failed"
    if len(failed) > FAILED_TOLD:
        yield f"  the lines of all {len(failed)} are in the certificate"
    yield f"  seed {column['seed']}, {column['scripts']} random scripts, {column['commands']} commands"
    yield f"  again  {column['again']}"
    yield f"  certificate  {column['folder']}/certificate.json"
