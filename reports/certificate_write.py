"""Writes a certificate's folder: `certificate.json`, the page and the badge, beside the files of its runs.

Invariant: `certificate.json` gets its name last, so that a folder that has one is complete.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from harness.history.values import visible
from harness.scenario.certificate import CERTIFICATE, Certificate, CheckRow, certificate_text
from harness.system.whole_file import disk_errors_told, write_whole
from reports.cards import with_cards
from reports.page import style_of, templates

PAGE: Final = "index.html"
BADGE: Final = "badge.svg"
_FILLS: Final = {"good": "#0b6e4f", "bad": "#b3261e", "open": "#8a5a00"}
_LETTER_PX: Final = 6.6
"""The width of an average letter of 11 px, with some room."""
_PAD_PX: Final = 16
_BADGE_TEXT: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{label}: {word}">
<title>{label}: {word}</title>
<rect width="{width}" height="20" rx="3" fill="#3b4252"/>
<path d="M{left} 0h{right_less}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3H{left}z" fill="{fill}"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
<text x="{label_x}" y="14">{label}</text>
<text x="{word_x}" y="14">{word}</text>
</g>
</svg>
"""


def certificate_badge(certificate: Certificate) -> str:
    """The badge: `floodmark PROFILE | WORD`, an SVG that loads nothing."""
    counts = f" {sum(run.holds for run in certificate.runs)}/{certificate.asked}"
    label = escape(f"floodmark {visible(certificate.profile)}", {'"': "&quot;"})
    word = escape(f"{visible(certificate.word)}{counts}", {'"': "&quot;"})
    left = round(len(label) * _LETTER_PX) + _PAD_PX
    right = round(len(word) * _LETTER_PX) + _PAD_PX
    return _BADGE_TEXT.format(
        width=left + right,
        left=left,
        right_less=right - 3,
        label=label,
        word=word,
        fill=_FILLS[certificate.tone],
        label_x=left / 2,
        word_x=left + right / 2,
    )


def write_certificate(certificate: Certificate, folder: Path) -> Path:
    """Writes the three files into `folder`; returns the page. Raises WorldError if that fails."""
    texts = {
        PAGE: certificate_page(certificate),
        BADGE: certificate_badge(certificate),
        CERTIFICATE: certificate_text(certificate),
    }
    with disk_errors_told(f"the certificate could not be written to {folder}"):
        for name, text in texts.items():
            write_whole(folder / name, text)
    return folder / PAGE


_SIGNS: Final = {"good": "✓", "bad": "✗", "open": "?"}
"""A sign beside the colour, by tone."""
_TOLD_IN_FULL: Final = 12
"""Most runs that do not hold whose sentences are on the page."""

Grid = list[tuple[str, str, list[CheckRow | None]]]


def certificate_page(certificate: Certificate) -> str:
    families, grid = _grid_of(certificate)
    failed = [run for run in certificate.runs if not run.holds]
    failed.sort(key=lambda run: run.verdict != "fail" and not run.pitfalls)
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
    files += [here / name for name in ("certificate_write.py", "cards.py", "page.py")]
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


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
