"""The part of `certify` that runs, writes and prints; `conform` shares the check of the folder.

Invariant: the exit code follows from the certificate that was written, or from what kept it from being written.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.reported_runs import REPORTS
from harness.cli.run_campaign import observing, stop_on_interrupt
from harness.conform.certifying import Certification, certified
from harness.engine.open_levels import StagePlan
from harness.levels import level_named
from harness.scenario.certificate import CERTIFICATE, Certificate, certificate_text
from harness.scenario.order import new_run_id
from harness.system.errors import Exit, UsageError
from reports.certificate_write import certificate_markdown, write_certificate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_COLOURS = {"good": "green", "bad": "red", "open": "yellow"}


def carry_out_and_write(wanted: Certification, asked: dict[str, Any]) -> int:
    """Carries the certification out, writes and prints the certificate, and returns the exit code."""
    run_id = new_run_id()
    folder = fresh_folder(asked["report"] or REPORTS / f"{run_id}-certificate")
    plan = StagePlan(
        run_id=run_id,
        report=folder,
        levels=level_named,
        world=asked["world"] if wanted.level != "sim" else "auto",
        proxy=asked["proxy"],
        keep=asked["keep"],
        offline=asked["offline"],
    )
    speech = {name: asked[name] for name in ("quiet", "verbose", "no_color")}
    with stop_on_interrupt() as stop, observing(**speech) as observer:
        certificate, failed = certified(wanted, plan, observer=observer, stop=stop)
        interrupted = stop.is_set()
    page = write_certificate(certificate, folder)
    print_certificate(certificate, page, form=asked["form"], no_color=asked["no_color"])
    if failed is not None:
        click.echo(f"floodmark: {failed}", err=True)
    return certificate_exit(certificate, interrupted=interrupted, failed=failed is not None)


def fresh_folder(
    folder: Path, *, files: Sequence[str] = (CERTIFICATE, "history", "verdicts", "scenarios")
) -> Path:
    """The folder. Raises UsageError if it has a certificate, or other `files` of one, already."""
    for name in files:
        if (folder / name).exists():
            message = f"{folder} holds a certificate already ({name})"
            raise UsageError(message, fix="name another folder with --report, or remove this one")
    return folder


def certificate_exit(certificate: Certificate, *, interrupted: bool = False, failed: bool = False) -> Exit:
    """The exit code: disagreeing judges, a violation, an interruption, a failed world, undecided, green."""
    if certificate.second.differs:
        return Exit.INTERNAL
    if certificate.tone == "bad":
        return Exit.VIOLATION
    if interrupted:
        return Exit.INTERRUPTED
    if failed:
        return Exit.ENVIRONMENT
    return Exit.HOLD if certificate.tone == "good" else Exit.UNDECIDED


def print_certificate(certificate: Certificate, page: Path, *, form: str, no_color: bool) -> None:

    match form:
        case "json":
            click.echo(certificate_text(certificate), nl=False)
        case "markdown":
            click.echo(certificate_markdown(certificate), nl=False)
        case "github":
            level = "notice" if certificate.tone == "good" else "error"
            told = certificate.cause or certificate.sentence
            told = told.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
            click.echo(f"::{level} title=floodmark certify::{told}")
        case _:
            word, *lines = _lines(certificate, page)
            click.secho(word, fg=_COLOURS[certificate.tone], bold=True, color=False if no_color else None)
            for line in lines:
                click.echo(line)


def _lines(certificate: Certificate, page: Path) -> Iterator[str]:

    yield f"{certificate.word.upper()}  {certificate.subject.name}, profile {certificate.profile}"
    if certificate.cause:
        yield f"cause    {certificate.cause}"
    yield f"runs     {certificate.sentence} They took {certificate.took_s:.0f} s."
    yield f"values   {' '.join(certificate.subject.expected_from) or 'not told'}"
    yield f"not shown: {len(certificate.not_shown)} sentences on the page"
    yield f"page     {page}"
    yield f"badge    {page.with_name('badge.svg')}"
    yield f"again    {certificate.again}"
    yield f"verify   floodmark verify {page.with_name(CERTIFICATE)}"
