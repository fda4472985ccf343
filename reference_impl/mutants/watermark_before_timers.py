"""Planted defect: a watermark is forwarded as it comes, before its timers have fired.

Answers to an advance that emits the watermark although it was interrupted (T13): what the remaining timers emit comes
behind their own watermark, and counts as late downstream. Where no mail interrupts, the mutant is the reference.
"""

from __future__ import annotations

from reference_impl.elements import Watermark
from reference_impl.state.internal_timer_services import MailboxWatermarkProcessor

__all__ = ["HastyWatermarkProcessor"]


class HastyWatermarkProcessor(MailboxWatermarkProcessor):
    """Emits whether or not the advance came to its end."""

    def _advance(self, watermark: Watermark) -> None:
        super()._advance(watermark)
        if self.is_pending and self._emitted < watermark.timestamp:
            self._pass_on(watermark)
