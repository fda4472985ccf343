"""A rescale: reads what the stopped subtasks stored, fences them off, and gives the next ones their shares.

Answers to the part of Flink's `CheckpointCoordinator` that restores a job at another parallelism. Invariant: it happens
between two generations of subtasks: each old subtask has stopped at the checkpoint or ended, and none can write any
more before the first new one starts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from contextlib import closing

from msgspec.structs import replace

from harness.database.checkpoint_store import CheckpointStore, CheckpointUnreadable
from harness.database.coordinated_sink import roll_back_branches
from harness.database.driver import Cursor, Driver
from harness.database.store_files import Files
from harness.history.event import Rescale
from harness.scenario.model import Scenario
from harness.scenario.plan import RunPlan
from harness.sut.rescaling import OldSubtask, first_number
from harness.sut.variant import Variant
from harness.system.clock import REAL_CLOCK, Clock, Deadline
from harness.system.errors import WorldError
from harness.system.json_types import Json

_STATEMENT_S = 5.0
_SETTLE_S = 20.0
_AGAIN_S = 0.05


class Rescaler:
    """Carries out the rescales of one run. Mutable: counts them, and knows the subtasks that run."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        variant: Variant,
        driver: Driver,
        files: Callable[[int], Files],
        note: Callable[..., object],
        clock: Clock = REAL_CLOCK,
    ) -> None:
        """`files`: the checkpoint store's files of a subtask; `note(kind, **fields)` records the event `rescale`."""
        self._scenario = scenario
        self._variant = variant
        self._driver = driver
        self._files = files
        self._note = note
        self._clock = clock
        self._done = 0
        self.running: Sequence[int] = range(scenario.workload.subtasks)
        """The numbers of the subtasks of this generation."""

    def is_due(self, ended: Collection[int]) -> bool:
        """Whether a rescale follows now that all subtasks have stopped or ended; `ended`: those that have ended."""
        return self._done < len(self._scenario.rescales) and not set(self.running) <= set(ended)

    @property
    def stops_at(self) -> int | None:
        """The checkpoint at which the running subtasks stop; None: they run to their ends."""
        if self._done >= len(self._scenario.rescales):
            return None
        return self._scenario.rescales[self._done].at.checkpoint

    def rescale(self, plan: RunPlan, *, ended: Collection[int]) -> RunPlan:
        """The plan for the next generation. Raises WorldError if the database does not answer in time."""
        rescale = self._scenario.rescales[self._done]
        deadline = Deadline(_SETTLE_S, clock=self._clock)
        while True:
            try:
                with (
                    closing(self._driver.connect(statement_s=_STATEMENT_S)) as connection,
                    connection.cursor() as cursor,
                ):
                    old, checkpoint = self._old(cursor, ended)
                    rescaling = self._variant.rescaling(self._scenario, plan)
                    shares = rescaling.shares(old, checkpoint=checkpoint, to=rescale.to)
                    self._hand_over(cursor, [one.number for one in old], list(shares))
                    connection.commit()
                    break
            except self._driver.errors as error:
                if deadline.passed:
                    message = (
                        f"the rescale to {rescale.to} subtasks could not be stored within {_SETTLE_S:.3g} s"
                    )
                    raise WorldError(f"{message}: {error}", fix="read the server's log") from error
                self._clock.pause(_AGAIN_S)
        assert list(shares) == list(range(first := first_number(plan, self._scenario), first + rescale.to))
        self._note(Rescale, c=checkpoint, of=list(self.running), to=list(shares))
        self._done += 1
        self.running = list(shares)
        return replace(plan, shares={**plan.shares, **shares})

    def _old(self, cursor: Cursor, ended: Collection[int]) -> tuple[list[OldSubtask], int]:
        """What the subtasks stored, and the checkpoint at which those that had not ended stopped."""
        found, stopped_at = [], 0
        for number in self.running:
            if number in ended:
                found.append(OldSubtask(number=number, position=0, elements=[], has_ended=True))
                continue
            epoch, position, elements = self._part(cursor, number)
            stopped_at = max(stopped_at, epoch)
            found.append(OldSubtask(number=number, position=position, elements=elements))
        return found, stopped_at

    def _part(self, cursor: Cursor, subtask: int) -> tuple[int, int, list[Json]]:
        """The subtask's part of its newest complete checkpoint."""
        if self._scenario.sink == "atomic":
            cursor.execute(
                "SELECT epoch, pos, elements FROM epoch WHERE subtask = %s ORDER BY epoch DESC LIMIT 1",
                (subtask,),
            )
            epoch, position, elements = cursor.fetchone()
            return epoch, position, json.loads(elements)
        cursor.execute(
            "SELECT ack.epoch, ack.token, ack.file FROM ack JOIN completed ON completed.epoch = ack.epoch"
            " WHERE ack.subtask = %s ORDER BY ack.epoch DESC LIMIT %s",
            (subtask, 1),
        )
        ((_, _, file),) = cursor.fetchall()
        store = CheckpointStore(self._files(subtask), subtask=subtask, seed=0, clock=self._clock)
        try:
            saved = store.read(file)
        except CheckpointUnreadable as error:
            message = f"the checkpoint from which subtask {subtask} is rescaled cannot be read: {error}"
            raise WorldError(message, fix="remove the fault of the store, or the rescale") from error
        return saved.epoch, saved.position, saved.elements

    def _hand_over(self, cursor: Cursor, old: Sequence[int], new: Sequence[int]) -> None:
        """Fence off the old subtasks, roll back what they prepared beyond the checkpoint, and let the new ones in."""
        origin_ms = None
        for number in old:
            cursor.execute("SELECT token, origin_ms FROM fence WHERE subtask = %s", (number,))
            _, began_ms = cursor.fetchone()
            origin_ms = began_ms if origin_ms is None else min(began_ms, origin_ms)
            cursor.execute("UPDATE fence SET token = token + 1, ended = 1 WHERE subtask = %s", (number,))
        for number in new:
            cursor.execute(
                "INSERT INTO fence (subtask, token, origin_ms) VALUES (%s, 0, %s)", (number, origin_ms)
            )
        cursor.connection.commit()
        if self._scenario.sink == "two-phase":
            roll_back_branches(cursor, self._driver.database)
