"""What the source said at each position and of each record, for the whole history.

The source is deterministic: the same position gives the same element again. Invariant: the first word on a
position or an id holds, and every later one is compared with it. Memory grows with positions and ids.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, NamedTuple

from harness.history.values import identity, shown

__all__ = ["SourceIdentity"]

_NO_KEY = ("no key",)
"""Absent is not the same as given; no JSON value has this identity."""


class _Place(NamedTuple):
    line: int
    kind: str
    what: int | str
    """The id, or the watermark."""


class _Taken(NamedTuple):
    line: int
    s: int
    pos: int
    key: Hashable
    ts: int | None


class SourceIdentity:
    """Compares each `in` and `wm` with what was said before. Mutable: the state of a fold."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, int], _Place] = {}
        self._taken: dict[int | str, _Taken] = {}
        self._expected: dict[int | str, Hashable] = {}

    def check(self, line: int, kind: str, good: Mapping[str, Any]) -> Iterator[str]:
        """The breaches of one `in` or `wm` whose subtask and position are well-formed."""
        what = good.get("id" if kind == "in" else "w")
        if what is None:
            return
        s, pos = good["s"], good["pos"]
        place = self._places.setdefault((s, pos), _Place(line, kind, what))
        if (place.kind, place.what) != (kind, what):
            yield (
                f"position {shown(pos)} of subtask {s} was `{place.kind}` {shown(place.what)}"
                f" on line {place.line} and is `{kind}` {shown(what)} here"
            )
        if kind == "in":
            yield from self._record(line, good)

    def _record(self, line: int, good: Mapping[str, Any]) -> Iterator[str]:
        id_ = good["id"]
        key = identity(good["key"]) if "key" in good else _NO_KEY
        now = _Taken(line, good["s"], good["pos"], key, good.get("ts"))
        first = self._taken.setdefault(id_, now)
        if first[1:] != now[1:]:
            yield from _contradictions(id_, first, now)
        if "expect" in good:
            expected = identity(good["expect"])
            if self._expected.setdefault(id_, expected) != expected:
                yield f"record {shown(id_)} comes with another `expect` than before"


def _contradictions(id_: int | str, first: _Taken, now: _Taken) -> Iterator[str]:
    told = f"record {shown(id_)} was taken on line {first.line}"
    if first.s != now.s:
        yield f"{told} by subtask {first.s}, here by subtask {now.s}"
    elif first.pos != now.pos:
        yield f"{told} at position {shown(first.pos)}, here at {shown(now.pos)}"
    if first.key != now.key:
        yield f"{told} with another `key`"
    if first.ts != now.ts:
        yield f"{told} with the `ts` {shown(first.ts)}, here with {shown(now.ts)}"
