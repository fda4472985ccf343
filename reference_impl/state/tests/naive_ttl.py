"""What a state with a life is to show, as a list of entries a key that is gone through anew each time."""

from __future__ import annotations

from typing import Any

from reference_impl.state.state_descriptor import StateTtlConfig
from reference_impl.state.tests.ttl_rig import ON_READ, RETURN

Entry = tuple[Any, Any, int]
"""The user's key or None, the value, the stamp."""


class NaiveTtlState:
    """Of any of the five kinds; nothing cleans up but reads. Mutable."""

    def __init__(self, kind: str, config: StateTtlConfig) -> None:
        self.kind = kind
        self.config = config
        self.entries: dict[Any, list[Entry]] = {}
        """By the current key."""

    def lives(self, entry: Entry, now_ms: int) -> bool:
        """S11, in a line."""
        return entry[2] + self.config.time_to_live_ms > now_ms

    def write(self, key: Any, number: int, now_ms: int) -> None:
        """One more value."""
        was = self.entries.get(key, [])
        if self.kind == "list":
            self.entries[key] = [*was, (None, number, now_ms)]
        elif self.kind == "map":
            user_key = number % 3
            others = [entry for entry in was if entry[0] != user_key]
            self.entries[key] = [*others, (user_key, number, now_ms)]
        else:
            shown = [one for one in was if self.lives(one, now_ms) or self.config.state_visibility is RETURN]
            before = shown[0][1] if shown else None
            self.entries[key] = [(None, self.combined(before, number), now_ms)]

    def combined(self, before: Any, number: int) -> Any:
        """What a value, a reducing or an aggregating state holds after it."""
        match self.kind:
            case "reducing":
                return number if before is None else before + number
            case "aggregating":
                return (number,) if before is None else (*before, number)
        return number

    def read(self, key: Any, now_ms: int) -> list[Any]:
        """All that is shown, with the keys of a map; and what the reader does to it."""
        was = self.entries.get(key, [])
        living = [entry for entry in was if self.lives(entry, now_ms)]
        shown = was if self.config.state_visibility is RETURN else living
        if self.config.update_type is ON_READ:
            left = [(user_key, value, now_ms) for user_key, value, _ in living]
        elif self.kind == "list" and living:
            left = was
        else:
            left = living
        self.entries[key] = left
        return [(user_key, value) for user_key, value, _ in shown]

    def clean(self, now_ms: int) -> None:
        """Take the expired away everywhere, as a filtered snapshot that is restored does."""
        for key, was in self.entries.items():
            self.entries[key] = [entry for entry in was if self.lives(entry, now_ms)]
