"""Strangers in fencing, and failures that nobody asked for.

Answers to a check without a lock, to a check whose answer is kept, and to programs that fail for a reason of their own
and are restarted. Invariant: each differs from the sink or the function of the run in one step; a failure without a
cause happens in one attempt of a subtask, so that the run can end.
"""

from __future__ import annotations

import json
from typing import Any
from zlib import crc32

from harness.database.epoch import Fenced, SavedEpoch, SinkLost, Takeover
from harness.database.sink import EpochSink
from harness.sut.defects.defect import NEVER, SIM_AND_LIVE, Defect, both, can_be_superseded, sink_is
from harness.sut.variant import HasJournal, Kind, Variant, made_once
from reference_impl.operator.functions import AsyncFunction, close_function, open_function
from tools.defects.kinds import Stranger
from tools.defects.where import is_restored

_FAILS_AT = 3


@made_once
def reading_without_lock(sink: Kind) -> Kind:
    """`sink`, which reads the fence in its transaction, and locks nothing."""

    class UnlockedSink(sink):  # type: ignore[misc]  # a class made of a class
        def check_fence(self, cursor: Any) -> None:
            cursor.execute("SELECT token FROM fence WHERE subtask = %s", (self.subtask,))
            self._refuse_other(cursor)

    return UnlockedSink


@made_once
def leaving_sessions(sink: Kind) -> Kind:
    """`sink`, which believes that its session has the writer's name, and so ends no session of an earlier attempt."""

    class LenientSink(sink):  # type: ignore[misc]
        def __init__(self, *args: Any, **how: Any) -> None:
            super().__init__(*args, **how)
            self.transactions._takes_name = _has_it_already  # noqa: SLF001 - the one thing that is wrong

    return LenientSink


def _has_it_already(cursor: Any) -> bool:
    del cursor
    return True


@made_once
def neither_locking_nor_ending(sink: Kind) -> Kind:
    """`sink` without a lock on the fence, and with the session of the attempt before it left alone."""
    return reading_without_lock(leaving_sessions(sink))


@made_once
def checking_once(sink: Kind) -> Kind:
    """`sink`, which is sure of its token once a check has passed."""

    class SureSink(sink):  # type: ignore[misc]
        _is_sure = False

        def check_fence(self, cursor: Any) -> None:
            if not self._is_sure:
                super().check_fence(cursor)
                self._is_sure = True

        def _check_newest(self, cursor: Any) -> None:
            if not self._is_sure:
                super()._check_newest(cursor)

    return SureSink


@made_once
def restoring_before_fencing(sink: Kind) -> Kind:
    """`sink`, which reads what to restore, and then fences off the attempt before it."""
    if not issubclass(sink, EpochSink):
        return sink

    class EarlyReader(sink):  # type: ignore[misc]
        _read: tuple[SavedEpoch | None, ...] = ()

        def take_over(self, *, now_ms: int) -> Takeover:
            saved = self.retry_until_settled(self._newest, "read the last epoch")
            self.transactions._clock.pause(0.05)  # noqa: SLF001 - the read and the update are two round trips
            taken: Takeover = super().take_over(now_ms=now_ms)
            return Takeover(number=taken.number, origin_ms=taken.origin_ms, saved=saved)

        def _newest(self, cursor: Any) -> SavedEpoch | None:
            cursor.execute(
                "SELECT epoch, pos, elements FROM epoch WHERE subtask = %s ORDER BY epoch DESC LIMIT 1",
                (self.subtask,),
            )
            row = cursor.fetchone()
            cursor.connection.rollback()
            return (
                None
                if row is None
                else SavedEpoch(epoch=row[0], position=row[1], elements=json.loads(row[2]))
            )

    return EarlyReader


def _failing(attempt: int, at: int) -> Any:
    """A sink's class that gives up at transaction `at` of attempt `attempt`, for no cause."""

    @made_once
    def failing(sink: Kind) -> Kind:
        class FailingSink(sink):  # type: ignore[misc]
            _transactions = 0

            def check_fence(self, cursor: Any) -> None:
                super().check_fence(cursor)
                self._transactions += 1
                if self.token == attempt and self._transactions == at:
                    cursor.connection.rollback()
                    raise SinkLost("the sink's state is not what was expected")

        return FailingSink

    return failing


class _FailsNowAndThen:
    """A function whose calls fail now and then in a subtask's first attempt, chosen by a checksum."""

    def __init__(self, function: AsyncFunction) -> None:
        self._function = function
        self.timeout = function.timeout

    def invoke(self, value: Any, handle: Any) -> None:
        if crc32(repr(value).encode()) % 12:
            self._function.invoke(value, handle)
        else:
            handle.fail(RuntimeError("generator already executing"))

    def open(self) -> None:
        open_function(self._function)

    def close(self) -> None:
        close_function(self._function)


def _failing_calls(honest: AsyncFunction, attempt: HasJournal) -> AsyncFunction:
    return _FailsNowAndThen(honest) if attempt.journal._attempt == 1 else honest  # noqa: SLF001


@made_once
def losing_task(coordination: Kind) -> Kind:
    """`coordination`, which fails the task when a checkpoint has no element in flight, in its first attempt."""

    class FragileCoordination(coordination):  # type: ignore[misc]
        def snapped(self, checkpoint: Any) -> Any:
            if not checkpoint.elements and self._sink.token == 1 and checkpoint.number > 1:
                raise SinkLost("max() arg is an empty sequence")
            return super().snapped(checkpoint)

    return FragileCoordination


_UNASKED = "nothing fails without a cause"


@made_once
def knowing_one_successor(sink: Kind) -> Kind:
    """`sink`, which is fenced only while the attempt that took over from it is the newest."""

    class OneSuccessorSink(sink):  # type: ignore[misc]
        def _refuse_other(self, cursor: Any) -> None:
            holder = cursor.fetchone()[0]
            if holder == self.token + 1:
                cursor.connection.rollback()
                raise Fenced(
                    f"attempt {self.token} of subtask {self.subtask} is fenced: attempt {holder} took over"
                )

    return OneSuccessorSink


OF_FENCES = (
    Stranger(
        name="fence-read-without-lock",
        about="the token is compared in the transaction, but its row is not locked until the COMMIT",
        component="fencing",
        breaks="a superseded attempt makes nothing visible",
        variant=Variant(sink=reading_without_lock),
        where="a superseded attempt goes on",
        applies=can_be_superseded,
        survives="a successor raises no token before it has the writer's name, which the server gives it only once the"
        " session before has ended, and its transaction with it; without that, too, it is convicted"
        " (`neither-locks-nor-ends-session`)",
    ),
    Stranger(
        name="leaves-session",
        about="an attempt does not end the session of the attempt before it",
        component="fencing",
        breaks="a superseded attempt makes nothing visible",
        variant=Variant(sink=leaving_sessions),
        where="a superseded attempt goes on",
        applies=can_be_superseded,
        scenario="zombie-in-transaction",
        survives="a successor that raises the token waits until the transaction that has locked the fence's row ends;"
        " without that lock, too, it is convicted (`neither-locks-nor-ends-session`)",
    ),
    Stranger(
        name="neither-locks-nor-ends-session",
        about="the fence's row is not locked, and the session of the attempt before is not ended",
        component="fencing",
        breaks="a superseded attempt makes nothing visible",
        variant=Variant(sink=neither_locking_nor_ending),
        where="a superseded attempt goes on",
        applies=can_be_superseded,
        levels=SIM_AND_LIVE,
        scenario="zombie-in-transaction",
        convicted_by=("V8", "V9"),
    ),
    Stranger(
        name="fence-checked-once",
        about="an attempt compares its token in its first transaction only",
        component="fencing",
        breaks="a superseded attempt makes nothing visible",
        variant=Variant(sink=checking_once),
        where="a superseded attempt goes on",
        applies=can_be_superseded,
        convicted_by=("V13",),
    ),
    Stranger(
        name="restores-before-fencing",
        about="an attempt reads what to restore before it has fenced off the one before it",
        component="fencing",
        breaks="no earlier attempt commits between the restore's read and the fence",
        variant=Variant(sink=restoring_before_fencing),
        where="an atomic sink; a superseded attempt goes on",
        applies=both(sink_is("atomic"), can_be_superseded),
        levels=SIM_AND_LIVE,
        scenario="declared-dead-too-early",
        convicted_by=("V8", "V9"),
    ),
    Stranger(
        name="sink-fails-once",
        about="the sink of a subtask's first attempt gives up in its third transaction, for no cause",
        component="failures",
        breaks=_UNASKED,
        variant=Variant(sink=_failing(1, _FAILS_AT)),
        convicted_by=("V24",),
    ),
    Stranger(
        name="fails-after-restart",
        about="an attempt that follows on a killed one fails at its first transaction, for no cause",
        component="failures",
        breaks=_UNASKED,
        variant=Variant(sink=_failing(2, 1)),
        where="an attempt is killed, or superseded",
        applies=is_restored,
        convicted_by=("V24",),
    ),
    Stranger(
        name="calls-fail-now-and-then",
        about="one call in twelve of a subtask's first attempt fails, for no cause",
        component="failures",
        breaks=_UNASKED,
        variant=Variant(function=_failing_calls),
        convicted_by=("V24",),
    ),
    Stranger(
        name="empty-checkpoint-fails",
        about="the first attempt of a subtask fails at a checkpoint with nothing in flight",
        component="failures",
        breaks=_UNASKED,
        variant=Variant(coordination=losing_task),
        convicted_by=("V24",),
    ),
    Defect(
        name="fence-knows-one-successor",
        about="an attempt gives way to the one behind it, and not to later ones",
        mirrors="a lock with two places, old and new, whose holder is told by the place",
        convicted_by=("V13",),
        variant=Variant(sink=knowing_one_successor),
        where="a superseded attempt goes on when its successor has been superseded, too",
        applies=NEVER,
        scenario="zombie-outlives-two",
        levels=SIM_AND_LIVE,
    ),
)
