"""Writes the tables of `docs/reference/proxy.md`: the toxics and the known differences.

Invariant: the page's tables are this program's output (`tests/test_proxy_page.py` compares them); its prose is by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harness.proxy.conformance.tests.differences import DIFFERENCES
from harness.proxy.mysql.commands import WORDS
from harness.proxy.mysql.rules import ERRORS
from harness.proxy.toxic_kinds import TOXIC_KINDS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "proxy.md"

_DOES = {
    "latency": "delays each chunk by `latency` plus or minus up to `jitter`; order is kept",
    "bandwidth": "lets `rate` kB (of 1000 bytes) a second pass, for each connection; 0 stalls",
    "slow_close": "passes the FIN on `delay` later",
    "timeout": "loses all bytes, and closes after `timeout` (0: only when it is removed)",
    "reset_peer": "resets both ends `timeout` after the next bytes or FIN",
    "slicer": "cuts into pieces of `average_size` bytes, varied by `size_variation`, `delay` microseconds apart",
    "limit_data": "closes after exactly `bytes` bytes",
    "noop": "nothing",
    "packet": "acts on MySQL's packets",
    "half_open": "loses bytes, FIN and RST of its stream; the far end never learns",
    "refuse": "connects are refused; live connections go on",
    "stall": "clients are accepted and get no bytes; nothing is dialled until it is removed",
}

_MEANS = {
    "on": "the command of the request, or of the request that a reply answers: {words}; a COMMIT sent as text counts,"
    " too, and a write that the server commits by itself (autocommit);"
    " a `write` may change rows (INSERT, UPDATE, DELETE, REPLACE, LOAD, CALL, TRUNCATE); of several statements in one"
    " query each `commit`, `rollback` and `write` counts, and the toxic acts on the whole query or reply",
    "statement": "only statements with this beginning (case, blanks and comments do not matter); empty: any",
    "table": "only what changes rows of this table: a statement that names it or whose text does not tell its tables"
    " (`CALL`, an UPDATE or DELETE of several), and the COMMIT of a transaction in which such a statement has changed"
    " rows; `*`: of any table; empty: any message",
    "nth": "the first match to act on, counted from when the toxic was added",
    "per": "`proxy` or `connection`: which matches are counted together",
    "times": "how many matches to act on; 0: all from the `nth` on",
    "packet": "begin at this packet of the message, from 1 (`drop` takes that one alone); 0: the whole message",
    "byte": "begin after this many bytes of that packet, its header included; -1: before it. Once bytes are dropped"
    " inside a packet, nothing more of this direction is delivered",
    "do": "`drop`, `hold` (until the toxic is removed), `delay`, `reset` (RST to both), `close` (FIN to both),"
    " `error` (the proxy answers the request itself), or `note`: only log it",
    "ms": "how long to `delay`",
    "code": "of the `error`: {codes}; its text says that it is synthetic",
    "then": "`none`, `reset` or `close`: what happens to the connection afterwards",
}


def page_text(page: str) -> str:
    """The page with its generated tables replaced."""
    toxics = _table(("toxic", "attributes and defaults", "what it does"), _toxics())
    differences = _table(("when", "Toxiproxy", "ours", "why"), _differences())
    packet = _table(("attribute", "default", "meaning"), _packet())
    for name, table in {"toxics": toxics, "packet": packet, "differences": differences}.items():
        page = _with_table(page, name, table)
    return page


def _toxics() -> Iterator[Sequence[str]]:
    for kind in TOXIC_KINDS.values():
        defaults = ", ".join(
            f"`{name}` {default!r}".replace("'", '"') for name, default in kind.attributes.items()
        )
        own = " (ours)" if kind.own else ""
        yield (f"`{kind.name}`{own}", "below" if kind.name == "packet" else defaults, _DOES[kind.name])


def _packet() -> Iterator[Sequence[str]]:
    words = ", ".join(f"`{word}`" for word in sorted(WORDS))
    codes = ", ".join(str(code) for code in ERRORS)
    for name, default in TOXIC_KINDS["packet"].attributes.items():
        shown = f'"{default}"' if isinstance(default, str) else str(default)
        yield (f"`{name}`", shown, _MEANS[name].format(words=words, codes=codes))


def _differences() -> Iterator[Sequence[str]]:
    for difference in DIFFERENCES:
        yield (difference.when, difference.toxiproxy, difference.ours, difference.why)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _with_table(page: str, name: str, table: str) -> str:
    begin, end = f"<!-- {name} -->\n", "<!-- end -->"
    return re.sub(f"{begin}.*?{end}", lambda _: f"{begin}{table}\n{end}", page, count=1, flags=re.DOTALL)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page_text(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")


if __name__ == "__main__":
    main()
