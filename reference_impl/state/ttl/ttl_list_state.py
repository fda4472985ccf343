"""Elements of the current key, each for a while.

Answers to Flink's `TtlListState`. Invariant: each element has its own stamp. A read leaves the expired out and the list
as it is, for rewriting it each time is dear (FLINK-30088); only when none lives is the entry taken away, key and all
(S14, FLINK-21413).

Deviation: a read goes through the whole list at once, where Flink's goes as far as its caller iterates. What reads
refresh, they write: that leaves out the expired for good.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reference_impl.errors import StateError
from reference_impl.state.list_state import ListState
from reference_impl.state.state_descriptor import ListStateDescriptor
from reference_impl.state.ttl.ttl_keyed_state import TtlMergingState
from reference_impl.state.ttl_value import TtlValue

__all__ = ["TtlListState"]


class TtlListState(TtlMergingState[ListStateDescriptor, ListState]):
    """Around a `ListState` of elements with stamps. Mutable."""

    def get(self) -> list[Any]:
        """Copies of the elements that may be shown; an empty list if there are none, never None."""
        self._accessed()
        elements: list[TtlValue] = self._inner.get()
        living = [element for element in elements if not self._ttl.has_expired(element.last_access_ms)]
        if elements and not living:
            self._inner.clear()
        elif living and self._ttl.updates_on_read:
            self._inner.update([self._ttl.stamped(element.value) for element in living])
        return [element.value for element in (elements if self._ttl.returns_expired else living)]

    def add(self, element: Any) -> None:
        """Append an element, which cannot be None."""
        self.add_all([element])

    def add_all(self, elements: Iterable[Any]) -> None:
        """Append elements, all or none; without any, nothing changes."""
        self._accessed()
        self._inner.add_all(self._all_stamped(elements))

    def update(self, elements: Iterable[Any]) -> None:
        """Replace the elements; without any, there are none."""
        self._accessed()
        self._inner.update(self._all_stamped(elements))

    def _all_stamped(self, elements: Iterable[Any] | None) -> list[TtlValue]:
        given = None if elements is None else list(elements)
        if given is None or any(element is None for element in given):
            what = "None is no list of elements" if given is None else "None cannot be an element of a list"
            raise StateError(
                f"{what}; give what there is", operator=self.table.context.operator, state=self.table.name
            )
        return [self._ttl.stamped(element) for element in given]
