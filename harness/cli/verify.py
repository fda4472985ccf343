"""`floodmark verify certificate.json`: judge a certificate again from the files beside it, with both judges.

Invariant: it runs nothing and writes nothing; the page and the badge are made again and compared.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import option, speech_options
from harness.system.errors import Exit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.conform.verifying import Verification
    from harness.scenario.certificate import Certificate


@click.command()
@click.argument("certificate", type=click.Path(path_type=Path), metavar="CERTIFICATE.json")
@option("--jobs", type=click.IntRange(min=1), default=None,
        help="Processes that judge the histories.  [default: cores]")  # fmt: skip
@speech_options
def verify(
    certificate: Path, *, jobs: int | None, form: str, quiet: bool, verbose: bool, no_color: bool
) -> int:
    """Judge again what a certificate says, from the files beside it; its folder may be named, too.

    Exit code: 0 it holds, 1 it does not: each file or run is named, 2 interrupted, 4 no certificate that this version
    reads, 11 no memory or disk space to judge.
    """
    from harness.cli.run_campaign import observing, stop_on_interrupt
    from harness.conform.verifying import verified
    from harness.scenario.certificate import CERTIFICATE, certificate_text, load_certificate

    path = certificate / CERTIFICATE if certificate.is_dir() else certificate
    loaded = load_certificate(path)
    with stop_on_interrupt() as stop, observing(quiet=quiet, verbose=verbose, no_color=no_color) as observer:
        observer.phase("verify", f"{len(loaded.runs)} runs of {loaded.subject.name}")
        found = verified(
            loaded,
            path.parent,
            jobs=jobs or os.cpu_count() or 1,
            told=lambda done, asked: observer.counted(done=done, asked=asked),
            goes_on=lambda: not stop.is_set(),
        )
    pages = list(_of_pages(loaded, path.parent))
    # The seal cannot show a change that leaves the content as it is: a space, a letter's case in an escape.
    if path.read_bytes() != certificate_text(loaded).encode():
        pages.insert(
            0,
            f"{path.name} was changed after it was written: its text is not the one that follows from its content",
        )
    _tell(loaded, found, pages, form=form, no_color=no_color)
    if found.problems or pages:
        return Exit.VIOLATION
    return Exit.INTERRUPTED if found.unfinished else Exit.HOLD


def _of_pages(certificate: Certificate, folder: Path) -> Iterator[str]:
    """Page and badge that are not those of the certificate, if the same templates drew them."""
    from reports.certificate_write import BADGE, PAGE, certificate_badge, certificate_page, drawing

    if certificate.versions.get("page") != drawing():
        return  # another version drew them
    for name, text in ((PAGE, certificate_page(certificate)), (BADGE, certificate_badge(certificate))):
        try:
            if (folder / name).read_bytes() != text.encode("utf-8", "backslashreplace"):
                yield f"{name} is not the one that follows from certificate.json"
        except FileNotFoundError:
            continue  # a certificate may be handed on without them
        except OSError as error:
            yield f"{name} cannot be read: {error.strerror or error}"


def _tell(
    certificate: Certificate, found: Verification, pages: Sequence[str], *, form: str, no_color: bool
) -> None:
    problems = (*found.problems, *pages)
    if form == "json":
        document: dict[str, Any] = found.as_json()
        document["holds"] = document["holds"] and not pages
        document["problems"] = list(problems)
        click.echo(json.dumps({"word": certificate.word, "seal": certificate.seal, **document}))
        return
    if form == "github":
        for problem in problems:
            click.echo(f"::error title=floodmark verify::{' '.join(problem.split())}")
    word = "DOES NOT HOLD" if problems else "INTERRUPTED" if found.unfinished else "HOLDS"
    colour = "red" if problems else "yellow" if found.unfinished else "green"
    click.secho(
        f"{word}  the certificate of {certificate.subject.name} says: {certificate.word}",
        fg=colour,
        bold=True,
        color=False if no_color else None,
    )
    for problem in problems:
        click.echo(f"  {problem}")
    click.echo(
        f"judged again: {found.judged} of {len(certificate.runs)} runs, {found.twice} of them by both judges"
    )
    for remark in found.remarks:
        click.echo(f"note: {remark}")
