"""The atomic sink in virtual time: data, snapshot, epoch row and fencing check in one transaction.

The protocol of `harness.database.sink.EpochSink` over a simulated link. Invariant: the outputs of epoch c are in the
table if and only if the epoch row c is, and only the attempt that holds the newest token can put them there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from harness.database.epoch import Attempt as TakenOver
from harness.database.epoch import Fenced, SavedEpoch, SinkLost, Visible
from harness.history.event import Commit
from harness.sim.client import Work
from harness.sim.database import Epoch
from harness.sim.link import LOST_CONNECTION, Connection, Flight, HubAlarm
from harness.sim.wire import STATEMENT, TAKE_OVER, Statement, transaction

if TYPE_CHECKING:
    from harness.sim.attempt import Attempt

__all__ = ["AtomicSink"]

_SETTLE_MS = 20_000
_BETWEEN_TRIES_MS = 50
_WORK_MS_MAX = 2
_FENCED = -1
"""No server's error code: the transaction's own answer."""


class AtomicSink:
    """One subtask's sink, used by one attempt; `take_over` comes first. Its calls block the attempt."""

    kind: ClassVar[str] = "atomic"

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.run = attempt.run
        self.subtask = attempt.subtask
        self.token = 0
        self.rows: list[Visible] = []
        self._connection: Connection | None = None
        self._flight: Flight | None = None
        self._alarm = HubAlarm(self.run.hub)

    def take_over(self) -> TakenOver:
        """Fence all earlier attempts, then read the last epoch."""
        taken: TakenOver = self.insist(self._take_over, "take over the subtask", says=TAKE_OVER)
        self.token = taken.number
        return taken

    def _take_over(self) -> tuple[Any, int | None, int]:
        database = self.run.database
        fence = database.fence(self.subtask)
        fence.token += 1
        if fence.origin_ms is None:
            fence.origin_ms = self.run.hub.now_ms
        epochs = database.epochs.get(self.subtask)
        saved = epochs[max(epochs)].saved if epochs else None
        return TakenOver(number=fence.token, origin_ms=fence.origin_ms, saved=saved), None, 0

    def add(self, row: Visible) -> None:
        """Take one output into the open epoch; nothing is visible yet."""
        self.rows.append(row)

    def bury(self, *, id: int, error: str) -> None:
        """A dead letter: the history has it, and nothing here asks for it again."""

    def commit(self, epoch: int, *, position: int, elements: Sequence[dict[str, Any]]) -> None:
        """Fence check, outputs, snapshot and epoch row in one transaction, until its outcome is known."""
        saved = SavedEpoch(epoch=epoch, position=position, elements=list(elements))
        self.attempt.crashes.reach("commit.pre")
        says = transaction(len(self.rows))
        self.insist(lambda: self.transact(saved), f"commit epoch {epoch}", says=says)
        self.rows.clear()

    def transact(self, saved: SavedEpoch) -> tuple[Any, int | None, int]:
        """On the server, at one instant."""
        holder = self.run.database.fence(self.subtask).token
        if holder != self.token:
            return holder, _FENCED, 0
        epochs = self.run.database.epochs.setdefault(self.subtask, {})
        if saved.epoch not in epochs:  # else an earlier COMMIT of ours, whose answer was lost, took effect
            self.make_visible(saved.epoch)
            epochs[saved.epoch] = Epoch(number=saved.epoch, token=self.token, saved=saved)
        return None, None, 0

    def make_visible(self, epoch: int) -> None:
        """The rows, and the word of it."""
        for row in self.rows:
            self.run.database.write(self.subtask, id=row.id, token=self.token, j=row.j, v=row.value)
        tape = self.run.tape
        tape.add(Commit(n=tape.n, t=tape.t, s=self.subtask, c=epoch, a=self.token))

    def insist(self, work: Work, what: str, *, says: Sequence[Statement] = STATEMENT) -> Any:
        """Have `work` done by the server, on a new connection after each loss, until its outcome is known."""
        hub = self.run.hub
        until_ms = hub.now_ms + _SETTLE_MS
        while True:
            flight = self.ask(work, says)
            if flight.code is None:
                return flight.value
            if hub.now_ms >= until_ms:
                message = (
                    f"subtask {self.subtask} could not {what} within {_SETTLE_MS} ms: error {flight.code}"
                )
                raise SinkLost(message)
            self.attempt.sleep_until(hub.now_ms + _BETWEEN_TRIES_MS)

    def ask(self, work: Work, says: Sequence[Statement]) -> Flight:
        """One round trip, for which the attempt blocks. Raises `Fenced`."""
        attempt, run = self.attempt, self.run
        if self._connection is None or not self._connection.alive:
            self._connection = run.links["sink"].connect()
        actor = attempt.actor
        flight = Flight(
            self._connection,
            alarm=self._alarm,
            landed=lambda _: actor.wake(),
            work=self._troubled(work),
            request=self.subtask,
            says=says,
        )
        self._flight = flight
        service_ms = run.draw.between(0, _WORK_MS_MAX)
        run.links["sink"].send(flight, service_ms=service_ms)
        if not flight.over and flight.doom is None and run.database.loses_reply():
            flight.doom = LOST_CONNECTION
        while not flight.over:
            attempt.wait()
        if flight.code == _FENCED:
            message = (
                f"attempt {self.token} of subtask {self.subtask} is fenced: attempt {flight.value} took over"
            )
            raise Fenced(message)
        return flight

    def _troubled(self, work: Callable[[], tuple[Any, int | None, int]]) -> Work:
        """The statement, or an error of the server's in its place."""

        def on_server() -> tuple[Any, int | None, int]:
            code = self.run.database.trouble()
            return work() if code is None else (None, code, 0)

        return on_server

    def close(self) -> None:
        """Give the connection up; a transaction on its way takes effect now or never."""
        if self._flight is not None and not self._flight.over:
            self.run.links["sink"].abandon(self._flight)
        if self._connection is not None:
            self.run.links["sink"].close(self._connection)
