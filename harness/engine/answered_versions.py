"""Tells of each answer of a user's lookup which version of its key's rows it shows, where a fault changes the rows.

Our own lookup reads the version with the rows; a user's answer is compared with the rows of every version. Invariants:
only keys are told whose calm answer was their rows; where several versions have such rows, one that acquits is told, so
a right answer is never convicted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from harness.faults.change_rows import ChangeRows
from harness.history.event import Call, Change, Event, In, Res
from harness.judge.pitfalls.not_its_row import are_rows
from harness.scenario.model import Scenario
from harness.scenario.workloads.keys import Key, key_of
from harness.scenario.workloads.lookups import CustomerRows

Versions = Sequence[Sequence[Mapping[str, Any]]]
"""The rows of one key, by version."""


def with_versions(
    events: Sequence[Event], *, scenario: Scenario, rows: Sequence[list[Any]], keys: Collection[Key]
) -> Sequence[Event]:
    """`events`, in which each final `ok` of a record of `keys` has the version that it shows, if it shows any.

    The events themselves if several faults change rows, whose versions nobody can number before.
    """
    if len(scenario.changing) != 1 or not keys:
        return events
    changes = _Changes(event for event in events if isinstance(event, Change))
    (fault,) = scenario.changing
    by_key = {
        key: [_at_version(found, version, fault) for version in range(changes.highest + 1)]
        for key, found in CustomerRows(rows).by_key(keys).items()
    }
    return list(_told(events, by_key, changes))


def _at_version(rows: Sequence[Mapping[str, Any]], version: int, fault: ChangeRows) -> list[dict[str, Any]]:
    """The rows after so many changes; with `how: delete` every second one takes them away."""
    if fault.how == "delete":
        if version % 2:
            return []
        return [{**row, "tier": row["tier"] + version // 2, "ver": version} for row in rows]
    return [{**row, "tier": row["tier"] + version, "ver": version} for row in rows]


def _told(events: Iterable[Event], by_key: Mapping[Key, Versions], changes: _Changes) -> Iterable[Event]:
    key_of_record: dict[Any, Key] = {}
    calls: dict[tuple[int, int, Any, int], int] = {}
    for event in events:
        if isinstance(event, In):
            key_of_record[event.id] = key_of(event.key)
        elif isinstance(event, Call):
            calls[event.s, event.a, event.id, event.try_] = event.n
        elif isinstance(event, Res) and event.final and event.r == "ok" and event.v is not UNSET:
            called = calls.get((event.s, event.a, event.id, event.try_))
            key = key_of_record.get(event.id)
            if called is not None and key is not None and key in by_key:
                version = changes.shown(key, event.v, by_key[key], called=called, answered=event.n)
                yield event if version is None else replace(event, ver=version)
                continue
        yield event


class _Changes:
    """When each version of a key began and was complete, by event number."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self._at: dict[tuple[str, Key, int], int] = {}
        self.highest = 0
        for change in changes:
            self._at[change.phase, key_of(change.key), change.ver] = change.n
            self.highest = max(self.highest, change.ver)

    def shown(
        self, key: Key, results: Sequence[object], versions: Versions, *, called: int, answered: int
    ) -> int | None:
        """The version that the results show: one that was in force during the call, if there is one; None: none."""
        alike = [version for version, rows in enumerate(versions) if are_rows(results, rows)]
        begins = {version: self._at.get(("begin", key, version), float("inf")) for version in alike}
        begun = [version for version, begin in begins.items() if not version or begin < answered]
        current = [version for version in begun if not self._is_over(key, version, called)]
        return next((found[-1] for found in (current, begun, alike) if found), None)

    def _is_over(self, key: Key, version: int, called: int) -> bool:
        """Whether a higher version was complete before the call."""
        later = range(version + 1, self.highest + 1)
        return any(self._at.get(("end", key, after), called) < called for after in later)
