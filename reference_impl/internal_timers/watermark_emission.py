"""How a watermark passes an operator with timers: at once, or mail by mail.

Answers to `processWatermark` of Flink's `AbstractStreamOperator` with its two ways. Invariant: in both, the timers that
a watermark releases fire before it leaves (T12, T13).
"""

from __future__ import annotations

from collections.abc import Callable

from reference_impl.elements import Watermark
from reference_impl.internal_timers.internal_timer_services import InternalTimerServices
from reference_impl.internal_timers.mailbox_watermark_processor import MailboxWatermarkProcessor
from reference_impl.mailbox_executor import MailboxExecutor

__all__ = ["PassWatermark", "watermark_emission"]

PassWatermark = Callable[[Watermark], None]


def watermark_emission(
    timer_services: InternalTimerServices, *, interrupted_by: MailboxExecutor | None, emit: PassWatermark
) -> PassWatermark:
    """What to do with a watermark; with `interrupted_by` its mail goes between two timers."""
    if interrupted_by is not None:
        processor = MailboxWatermarkProcessor(timers=timer_services, executor=interrupted_by, emit=emit)
        return processor.emit_watermark_inside_mailbox

    def emit_watermark_directly(watermark: Watermark) -> None:
        timer_services.advance_watermark(watermark.timestamp)
        emit(watermark)

    return emit_watermark_directly
