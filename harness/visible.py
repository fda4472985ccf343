"""Hostile text made visible: what a payload hides (NUL, ESC, bidi marks) is spelt out, secrets are withheld.

Answers to pytest's escaping of control bytes in JUnit. Invariant: what leaves this module is valid in XML
1.0, moves no cursor, turns no reading direction, and changes nothing when it is passed through again.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["WITHHELD", "brief", "visible", "without_credentials", "without_secrets"]

WITHHELD = "[withheld]"

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffc\ufffe\uffff]"
    "|[\ud800-\udfff]|[\U000e0000-\U000e0fff]"
)
_CREDENTIAL_NAME = re.compile(r"passw(or)?d|secret|credential|api_?key", re.IGNORECASE)
_CREDENTIAL_TEXT = re.compile(
    r"(?P<before>://[^\s:/@]*:|\bpass(?:word|wd)[\"']?\s*[=:]\s*[\"']?)[^\s\"'@&;,}]+", re.IGNORECASE
)


def visible(text: str) -> str:
    r"""`text` with each control, bidi, zero-width or unpaired character as its escape (`\x1b`, `\u202e`)."""
    return _HIDDEN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def brief(value: object, *, limit: int = 60) -> str:
    """Any JSON value on one line, cut at `limit` characters, visibly."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = visible(text).replace("\n", "\\n").replace("\t", "\\t")
    return text if len(text) <= limit else text[: limit - 1] + "…"


def without_credentials(value: Any) -> Any:
    """A JSON value in which whatever is named like a password, or stands in a URL as one, is withheld.

    What JSON cannot say (a NaN, an object of some library) is told as text.
    """
    match value:
        case Mapping():
            return {
                str(name): WITHHELD if _CREDENTIAL_NAME.search(str(name)) else without_credentials(inner)
                for name, inner in value.items()
            }
        case str():
            return _CREDENTIAL_TEXT.sub(rf"\g<before>{WITHHELD}", value)
        case float() if not math.isfinite(value):
            return str(value)
        case list() | tuple():
            return [without_credentials(inner) for inner in value]
        case None | bool() | int() | float():
            return value
        case _:
            return str(value)


def without_secrets(text: str, secrets: Sequence[str]) -> str:
    """`text` without any of the known `secrets`, however the file's format spells it; the last gate."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = re.sub("".join(map(_spellings, secret)), lambda _: WITHHELD, text)
    return text


def _spellings(character: str) -> str:
    """A pattern for one character as plain text, Markdown, HTML, XML or JSON may write it."""
    code = ord(character)
    forms = (character, html.escape(character), f"&#{code};", f"&#x{code:x};", json.dumps(character)[1:-1])
    return rf"\\?(?:{'|'.join(re.escape(form) for form in dict.fromkeys(reversed(forms)))})"
