"""The page of a certificate, and its Markdown: the word, the cause, what was judged and found, what is not shown.

Answers to Bowtie's report and Sonobuoy's bundle. Invariant: both are made from the `Certificate` alone, so
`floodmark verify` can make them again and compare.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Final

from harness.history.values import visible
from harness.scenario.certificate import Certificate, CertifiedRun, CheckRow
from reports.cards import with_cards
from reports.page import style_of, templates

_SIGNS: Final = {"good": "✓", "bad": "✗", "open": "?"}
"""A sign beside the colour, by tone."""
_TOLD_IN_FULL: Final = 12
"""Most runs that do not hold whose sentences are on the page."""

Grid = list[tuple[str, str, list[CheckRow | None]]]


def certificate_page(certificate: Certificate) -> str:
    """`index.html`: one file, without script."""
    families, grid = _grid_of(certificate)
    failed = _failed(certificate)
    return with_cards(
        templates()
        .get_template("certificate.html.j2")
        .render(
            one=certificate,
            sign=_SIGNS[certificate.tone],
            failed=failed[:_TOLD_IN_FULL],
            failed_more=len(failed[_TOLD_IN_FULL:]),
            families=families,
            grid=grid,
            style=style_of("page.css"),
        )
    )


def drawing() -> str:
    """A digest of what draws page and badge: while it is the same, one certificate gives the same bytes."""
    here = Path(__file__).parent
    files = [here / "templates" / name for name in ("certificate.html.j2", "page.css")]
    files += [here / name for name in ("certificate_page.py", "certificate_write.py", "cards.py", "page.py")]
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def _failed(certificate: Certificate) -> list[CertifiedRun]:
    """The runs that do not hold, those with a violation or a pitfall first."""
    found = [run for run in certificate.runs if not run.holds]
    return sorted(found, key=lambda run: run.verdict != "fail" and not run.pitfalls)


def _grid_of(certificate: Certificate) -> tuple[list[str], Grid]:
    """The families, and for each check its sentence and its row under each family."""
    families = list(dict.fromkeys(row.family for row in certificate.rows))
    rows = {(row.check, row.family): row for row in certificate.rows}
    abouts = {row.check: row.about for row in certificate.rows}
    return families, [
        (check, about, [rows.get((check, family)) for family in families]) for check, about in abouts.items()
    ]


def certificate_markdown(certificate: Certificate) -> str:
    """For a pull request: the head, the table, and what is not shown."""
    families, grid = _grid_of(certificate)
    lines = [
        f"### {_SIGNS[certificate.tone]} {certificate.word}: {_cell(certificate.subject.name)}",
        "",
        *([f"**{_cell(certificate.cause)}**", ""] if certificate.cause else []),
        _cell(certificate.sentence),
        "",
        f"| | {' | '.join(families)} |",
        f"|---|{'---|' * len(families)}",
        *(f"| {check} | {' | '.join(map(_counts, cells))} |" for check, _, cells in grid),
        "",
        "Not shown:",
        "",
        *(f"- {_cell(sentence)}" for sentence in certificate.not_shown),
        "",
        f"Again: {_cell(certificate.again)}",
    ]
    return "\n".join(lines) + "\n"


def _counts(row: CheckRow | None) -> str:
    if row is None:
        return "not run"
    if row.not_claimed == row.runs:
        return "not claimed"
    return f"{row.passed} of {row.runs} pass, {row.violations} violated, {row.vacuous} vacuous"


def _cell(text: str) -> str:
    """One line that cannot end a cell, open a tag or begin a code span."""
    plain = visible(" ".join(text.split()))
    for letter in "|<>`":
        plain = plain.replace(letter, f"&#{ord(letter)};")
    return plain
