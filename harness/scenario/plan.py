"""The plan of one run: all that an attempt of a subtask needs, as one JSON value.

Invariants: a plan is complete and does not change during a run, except that a rescale adds shares for
new subtasks; so an attempt in a new process needs nothing from its
predecessor. It holds the database's password, so it is passed by pipe or closure, never by file, argument or log.

What the records of a run with a user's lookup must yield, as known before the run, and where it is known from.

Answers to the model against which Jepsen checks a register. Invariant: `None` as the results of a record means that
nobody knows them, never that there are none. An attempt, the header and the cross-checks use the same value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from harness.database.endpoint import Endpoint
from harness.faults.parts.own_records import OwnRecord
from harness.history.sent import SentTo
from harness.scenario.outcome import Pitfall


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """The results to expect; a part of the run's plan."""

    source: Literal["given", "calm", "none"]
    """The header's `expect_from`."""
    by_key: bool = False
    """Whether records of one key yield the same: the function uses nothing of a record but its key."""
    of_keys: list[tuple[Any, list[Any]]] = []
    """Pairs of a key, as JSON, and what its records yield."""
    of_records: list[tuple[int, list[Any]]] = []
    """Pairs of a record's id and what it yields, where the key does not decide it."""

    def known(self) -> Callable[[int | str, object], list[object] | None]:
        """A function (id, key) -> the results of that record, or None."""
        of_keys = {_hashable(key): results for key, results in self.of_keys}
        of_records: dict[int | str, list[Any]] = {**dict(self.of_records)}

        def results(record: int | str, key: object) -> list[object] | None:
            found = of_records.get(record)
            return of_keys.get(_hashable(key)) if found is None else found

        return results


def _hashable(key: object) -> object:
    return tuple(key) if isinstance(key, list) else key


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedValues:
    """How the expected results were found, for the report."""

    says: str
    """Where they are from, and for how many keys, in one sentence."""
    took_s: float = 0.0
    """How long it took to find them."""
    calls: int = 0
    """Calls of the user's function for it."""
    threats: tuple[str, ...] = ()
    """Why some records have no expected results, a sentence each."""
    pitfalls: tuple[Pitfall, ...] = ()
    rows_of: tuple[Any, ...] = ()
    """The keys that a fault changes, and whose calm answers are the rows of before."""


Runner = Literal["continuous", "micro-batch", "stateful"]
"""How level spark runs the operator: one task a subtask for the whole run; a task a subtask and batch, with one
transaction of the driver for all; or the same with the snapshot in Spark's own state."""


class Crash(msgspec.Struct, frozen=True, kw_only=True):
    """Ends an attempt of `subtask` at the `hit`-th time of `phase`, once in a run."""

    fault: str
    subtask: int
    phase: str
    hit: int
    how: str = "sigkill"
    """`sigkill`, `sigsegv`, `exit` or `exception`."""


class RescaledShare(msgspec.Struct, frozen=True, kw_only=True):
    """What a subtask starts with that a rescale begins."""

    generation: int
    """How many rescales came before, this one included."""
    checkpoint: int
    """The checkpoint of the subtasks that the rescale ended."""
    index: int
    parallelism: int
    groups: tuple[int, int]
    """The first and the last key group that it owns."""
    places: dict[int, int]
    """The place from which each partition of its source is read."""
    elements: list[dict[str, Any]]
    """Its state and its elements in flight, in stored form."""
    inherited: int
    """The number of elements in flight: the first position that it reads."""
    cuts: dict[int, int]
    """The position at the checkpoint of each subtask that the rescale ended, by the subtask's number."""


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of one run, for its subtasks."""

    run_id: str
    scenario: dict[str, Any]
    """The scenario as JSON; `Scenario.model_validate` reads it back."""
    seed: int
    sut: str
    mutant: str | None
    lookups: Endpoint
    sink: Endpoint
    folder: str
    """The folder where attempts write their event files."""
    path: list[str]
    """Additions to the import path of an attempt's process, to find a user's own function."""
    table: list[list[Any]]
    """The rows of the lookup table, to compute the expected results."""
    crashes: list[Crash]
    expected: Expected | None = None
    """What the records of a user's lookup must yield; None for our own lookup, whose results `table` gives."""
    own: list[OwnRecord] | None = None
    """The records of the user's file; None: they are drawn."""
    replica: Endpoint | None = None
    """The second server, which follows the sink's; None: there is none."""
    generation: int = 0
    """The number of the Spark driver that sends the attempts, from 1; 0: there is only one."""
    shared: Endpoint | None = None
    """The run's database, reached directly; there attempts on other hosts share what beside the harness is in files."""
    sent_to: SentTo | None = None
    """Where attempts on other hosts send their events; None: they write into `folder`, which they share."""
    runner: Runner = "continuous"
    inside: list[dict[str, Any]] = []
    """The other faults that attempts perform themselves, as JSON; `fault_of` reads them back."""
    shares: dict[int, RescaledShare] = {}
    """The share of each subtask that a rescale has begun."""


def numbers_of(plan: RunPlan, *, subtasks: int) -> range:
    """The numbers of the `subtasks` subtasks that run now: after a rescale those that it began."""
    newest = max((share.generation for share in plan.shares.values()), default=0)
    first = min((number for number, share in plan.shares.items() if share.generation == newest), default=0)
    return range(first, first + subtasks)


def encode_plan(plan: RunPlan) -> bytes:
    """Writes a plan as one line of JSON."""
    return msgspec.json.encode(plan)


def decode_plan(line: bytes) -> RunPlan:
    """Reads what `encode_plan` wrote."""
    return msgspec.json.decode(line, type=RunPlan)
