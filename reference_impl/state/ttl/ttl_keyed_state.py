"""What the states with a time to live have in common: each is around a state of values with stamps.

Answers to Flink's `AbstractTtlState`. Invariant: what is not about values, such as the namespace, is the inner state's
own business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from reference_impl.state.aggregating_state import AggregatingState
from reference_impl.state.keyed_state import KeyedState
from reference_impl.state.list_state import ListState
from reference_impl.state.reducing_state import ReducingState
from reference_impl.state.ttl.ttl_decorator import TtlDecorator

__all__ = ["TtlKeyedState", "TtlMergingState"]

D = TypeVar("D")
S = TypeVar("S", bound=KeyedState)
M = TypeVar("M", bound=ListState | ReducingState | AggregatingState)


class TtlKeyedState(Generic[D, S]):
    """Around `inner`; `accessed` is called before each access. Mutable."""

    def __init__(self, descriptor: D, inner: S, ttl: TtlDecorator, accessed: Callable[[], None]) -> None:
        self.descriptor = descriptor
        self.table = inner.table
        self.clear = inner.clear
        self.set_current_namespace = inner.set_current_namespace
        self._inner = inner
        self._ttl = ttl
        self._accessed = accessed

    @property
    def current_namespace(self) -> Any:
        """The namespace that the next access is about."""
        return self._inner.current_namespace


class TtlMergingState(TtlKeyedState[D, M]):
    """One whose namespaces can be merged (S7). Mutable."""

    def __init__(self, descriptor: D, inner: M, ttl: TtlDecorator, accessed: Callable[[], None]) -> None:
        super().__init__(descriptor, inner, ttl, accessed)
        self.merge_namespaces = inner.merge_namespaces
