"""Writes a certificate's folder: `certificate.json`, the page and the badge, beside the files of its runs.

Invariant: `certificate.json` gets its name last, so that a folder that has one is complete.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from harness.history.values import visible
from harness.scenario.certificate import CERTIFICATE, Certificate, certificate_text
from harness.system.whole_file import disk_errors_told, write_whole
from reports.certificate_page import certificate_page

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
