"""What mutants of a record's settlement share: the reference operator, with settlements of another kind.

Answers to Flink's `AsyncWaitOperator.processElement` without retry. Invariant: with the honest `Settlement` it does
what the reference does; with retry it *is* the reference, so such a mutant shows without retry only.
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec.structs import replace

from reference_impl.elements import OperatorInput, Record
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.functions import begin_call
from reference_impl.operator.result import Settlement

__all__ = ["OperatorOfSettlements"]


class OperatorOfSettlements(AsyncWaitOperator):
    """Settles each record with a `settlement`."""

    settlement: ClassVar[type[Settlement]] = Settlement

    def process(self, element: OperatorInput) -> None:
        if type(element) is not Record or self._retries:
            super().process(element)
            return
        if self._copy_value is not None:
            copied: Any = self._copy_value(element.value)
            element = replace(element, value=copied)
        entry = self.settlement(self, element)
        if not self.queue.try_put(entry):
            self._wait_for_slot(entry)
        self.announce(element, 1)
        if self.timeout_ms:
            self.timeouts.add(entry)
        begin_call(self.function, element.value, entry)
