"""Locks of the simulated server: row locks, which are held until a transaction ends, and locks by name (GET_LOCK).

Answers to InnoDB's lock system and to MariaDB's user-level locks. Invariant: a lock has one holder; waiters get it in
the order in which they came. All row locks are exclusive: our statements take no other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from msgspec import Struct

__all__ = ["Locks", "Wait", "cycle"]

_Owner = TypeVar("_Owner", bound=Hashable)


class Wait(Struct, Generic[_Owner], eq=False):
    """One waiter. Mutable: `granted` is called once, when the lock is its owner's."""

    owner: _Owner
    key: Hashable
    granted: Callable[[], None]


class Locks(Generic[_Owner]):
    """Mutable: who holds what, and who waits for it."""

    def __init__(self) -> None:
        self._holders: dict[Hashable, _Owner] = {}
        self._queues: dict[Hashable, list[Wait[_Owner]]] = {}
        self._held: dict[_Owner, dict[Hashable, None]] = {}
        self.waits: dict[_Owner, Wait[_Owner]] = {}
        """An owner waits for one lock at a time."""

    def holder(self, key: Hashable) -> _Owner | None:
        """Who holds it, or None."""
        return self._holders.get(key)

    def held_by(self, owner: _Owner) -> int:
        """How many locks."""
        return len(self._held.get(owner, ()))

    def take(self, owner: _Owner, key: Hashable) -> bool:
        """Whether `owner` holds the lock now; it does if it held it before."""
        holder = self._holders.get(key)
        if holder is None:
            self._give(owner, key)
            return True
        return holder is owner

    def _give(self, owner: _Owner, key: Hashable) -> None:
        self._holders[key] = owner
        self._held.setdefault(owner, {})[key] = None

    def wait(self, owner: _Owner, key: Hashable, granted: Callable[[], None]) -> None:
        """Stand in the queue of a lock that another holds."""
        wait = self.waits[owner] = Wait(owner, key, granted)
        self._queues.setdefault(key, []).append(wait)

    def leave(self, owner: _Owner) -> None:
        """Wait no longer, if `owner` does."""
        wait = self.waits.pop(owner, None)
        if wait is not None:
            self._queues[wait.key].remove(wait)

    def blockers(self, owner: _Owner) -> list[_Owner]:
        """For whom it waits: the holder, and those who came before it."""
        wait = self.waits.get(owner)
        if wait is None:
            return []
        queue = self._queues[wait.key]
        return [self._holders[wait.key], *(one.owner for one in queue[: queue.index(wait)])]

    def release(self, owner: _Owner, key: Hashable) -> None:
        """Give one lock to the next in the queue. `granted` is called at once and must not do much."""
        del self._holders[key]
        del self._held[owner][key]
        queue = self._queues.get(key)
        if queue:
            wait = queue.pop(0)
            del self.waits[wait.owner]
            self._give(wait.owner, key)
            wait.granted()

    def release_all(self, owner: _Owner) -> None:
        """`owner` has ended: it neither waits nor holds anything."""
        self.leave(owner)
        for key in list(self._held.get(owner, ())):
            self.release(owner, key)
        self._held.pop(owner, None)


def cycle(locks: Locks[_Owner], start: _Owner) -> list[_Owner]:
    """Those who wait for each other in a ring through `start`, beginning with it; empty: there is none."""
    path: list[_Owner] = []
    seen: dict[_Owner, None] = {}

    def leads_back(owner: _Owner) -> bool:
        path.append(owner)
        for blocker in locks.blockers(owner):
            if blocker is start:
                return True
            if blocker not in seen:
                seen[blocker] = None
                if leads_back(blocker):
                    return True
        path.pop()
        return False

    return path if leads_back(start) else []
