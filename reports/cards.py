"""Tables that become stacked cards on a narrow screen: each cell gets the heading of its column, by style alone.

Answers to responsive tables. Invariant: the text of the page stays as it is; a table gains one class, and the page one
rule for each column of each different head. Works on the HTML of our own templates, in which every value is escaped.
"""

from __future__ import annotations

import html
import re
from typing import Final

_TABLE: Final = re.compile(
    r"<table(?: class=\"(?P<names>[^\"]*)\")?>(?P<caption>\s*<caption>.*?</caption>)?\s*<thead>(?P<head>.*?)</thead>",
    re.DOTALL,
)
_HEADING: Final = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_TAG: Final = re.compile(r"<[^>]*>")
_ONE_LINE: Final = 14
"""A heading with more letters may take two lines beside its cell."""
_END_OF_STYLE: Final = "</style>"
_NARROW: Final = "@media screen and (max-width:640px){%s}"


def with_cards(page: str) -> str:
    """The page with its tables named by their headings, and the rules that label their cells on a narrow screen."""
    heads: dict[tuple[str, ...], int] = {}

    def named(found: re.Match[str]) -> str:
        head = tuple(
            " ".join(html.unescape(_TAG.sub("", heading)).split())
            for heading in _HEADING.findall(found["head"])
        )
        number = heads.setdefault(head, len(heads) + 1)
        names = f"{found['names'] or ''} cards head-{number}".strip()
        return f'<table class="{names}">{found[0].partition(">")[2]}'

    marked = _TABLE.sub(named, page)
    rules = "".join(
        f'.head-{number} tr>:nth-child({place})::before{{content:"{_quoted(heading)}"}}'
        + (f".head-{number} tr>:nth-child({place}){{min-height:44px}}" if len(heading) > _ONE_LINE else "")
        for head, number in heads.items()
        for place, heading in enumerate(head, start=1)
        if heading
    )
    before, style, after = marked.partition(_END_OF_STYLE)
    return f"{before}{_NARROW % rules}\n{style}{after}" if rules and style else marked


def _quoted(text: str) -> str:
    """The text escaped as the content of a CSS string inside a style element."""
    return "".join(c if c.isalnum() or c in " .,-?%()" else f"\\{ord(c):06x}" for c in text)
