"""Redistributes operator state when the number of subtasks changes.

Answers to Flink's `RoundRobinOperatorStateRepartitioner`. Invariant: the new subtasks together get exactly the items
of a split state that the old ones wrote, and over all split states no subtask gets more than one item more than
another (S21).

Difference from Flink: the order is defined, where Flink's is that of a hash map. Items keep the order of the old
subtasks and their order in each; names are handled in the order in which the subtasks, from the first on, wrote them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reference_impl.errors import StateError
from reference_impl.state.handles import Mode, OperatorStateHandle, OperatorStatePartitions

_Written = dict[str, list[OperatorStatePartitions]]
"""For each name, what the subtasks wrote, in the order of the subtasks."""
_Given = list[dict[str, OperatorStatePartitions]]
"""For each new subtask, what it gets."""


class RoundRobinOperatorStateRepartitioner:
    """Redistributes the state of one operator; planted defects override the method of a mode."""

    def __init__(self, *, operator: str = "of the task") -> None:
        self._operator = operator

    def repartition_state(
        self, previous: Sequence[OperatorStateHandle | None], old_parallelism: int, new_parallelism: int
    ) -> list[OperatorStateHandle | None]:
        """For each new subtask, the handle that it restores, or None."""
        if len(previous) != old_parallelism:
            raise ValueError(
                f"{len(previous)} handles for {old_parallelism} old subtasks; give one for each in their order, or None"
            )
        if new_parallelism < 1:
            raise ValueError(f"operator state is to go to {new_parallelism} subtasks; give 1 or more")
        written = _by_name(previous, self._operator)
        given: _Given = [{} for _ in range(new_parallelism)]
        if new_parallelism == old_parallelism:
            self.keep(previous, written, given)
        else:
            self.split(written, given)
            self.broadcast(_of_mode(Mode.BROADCAST, written), given)
        self.unite(written, given)
        return [OperatorStateHandle(states=states) if states else None for states in given]

    def keep(self, previous: Sequence[OperatorStateHandle | None], written: _Written, given: _Given) -> None:
        """Same parallelism: give back each subtask's state, and supply lacking broadcast copies (S19, FLINK-23475)."""
        for states, handle in zip(given, previous, strict=True):
            for name, partitions in handle.states.items() if handle else ():
                if partitions.mode is not Mode.UNION:
                    states[name] = partitions
        copies = _of_mode(Mode.BROADCAST, written)
        self.broadcast({name: of for name, of in copies.items() if len(_reported(of)) < len(previous)}, given)

    def split(self, written: _Written, given: _Given) -> None:
        """Give contiguous parts to the subtasks; where one name's remainder ends, the next name's begins (S20)."""
        parallelism, start = len(given), 0
        for name, partitions in _of_mode(Mode.SPLIT_DISTRIBUTE, written).items():
            whole = self._joined(name, partitions)
            items, position = whole.items, 0
            base, remainder = divmod(len(items), parallelism)
            for turn in range(parallelism):
                share = base + (turn < remainder)
                part = items[position : position + share]
                position += share
                given[(start + turn) % parallelism][name] = replace(whole, items=part)
            start = (start + remainder) % parallelism

    def unite(self, written: _Written, given: _Given) -> None:
        """Every subtask gets all items (S22) and must drop those of others (S25)."""
        for name, partitions in _of_mode(Mode.UNION, written).items():
            united = self._joined(name, partitions)
            for states in given:
                states[name] = united

    def _joined(self, name: str, partitions: Sequence[OperatorStatePartitions]) -> OperatorStatePartitions:
        """The items of all subtasks; StateError if their types differ, since no subtask could read them all (S2)."""
        holding = _reported(partitions) or partitions
        types = list(dict.fromkeys(str(one.schema) for one in holding if one.schema != holding[0].schema))
        if types:
            raise StateError(
                f"one subtask left elements of {holding[0].schema}, another of {', '.join(types)}; restore it at the"
                " old parallelism first, and let every subtask ask for it with the new type",
                operator=self._operator,
                state=name,
            )
        return replace(holding[0], items=tuple(item for one in holding for item in one.items))

    def broadcast(self, copies: _Written, given: _Given) -> None:
        """Assign the copies round robin, skipping empty ones (S22)."""
        for name, partitions in copies.items():
            reported = _reported(partitions) or partitions
            for subtask, states in enumerate(given):
                states[name] = reported[subtask % len(reported)]


def refuse_union_finished_in_part(
    operator: str, previous: Sequence[OperatorStateHandle | None], finished: Sequence[bool]
) -> None:
    """Raise StateError if some subtasks have finished, others have not, and one of these has union state.

    The finished ones wrote nothing, so their elements would be missing from the union (C19, FLINK-21080).
    """
    if all(finished) or not any(finished):
        return
    for name, partitions in _of_mode(Mode.UNION, _by_name(previous, operator)).items():
        raise StateError(
            f"{sum(finished)} of {len(finished)} subtasks have finished, so their elements of this union list "
            f"are missing, while {len(partitions)} still have theirs; restore a checkpoint in which none or all "
            "have finished (C19)",
            operator=operator,
            state=name,
        )


def _by_name(previous: Sequence[OperatorStateHandle | None], operator: str) -> _Written:
    written: _Written = {}
    for handle in previous:
        for name, partitions in handle.states.items() if handle else ():
            written.setdefault(name, []).append(partitions)
    for name, several in written.items():
        if len({partitions.mode for partitions in several}) > 1:
            modes = " and ".join(repr(mode.value) for mode in dict.fromkeys(one.mode for one in several))
            raise StateError(
                f"some of its subtasks wrote it as {modes}; restore handles of one and the same operator (S18)",
                operator=operator,
                state=name,
            )
    return written


def _of_mode(mode: Mode, written: _Written) -> _Written:
    return {name: several for name, several in written.items() if several[0].mode is mode}


def _reported(partitions: Sequence[OperatorStatePartitions]) -> list[OperatorStatePartitions]:
    """The handles that hold items."""
    return [one for one in partitions if one.items]
