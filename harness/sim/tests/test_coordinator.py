"""The coordinator: complete means complete, by those who count."""

from __future__ import annotations

from harness.sim.coordinator import Coordinator, Part, Word
from reference_impl.task.positioned_input import Checkpoint


class Said:
    """Two subtasks' coordinator, and all that it says."""

    def __init__(self, *, recounts: bool = False) -> None:
        self.words: list[tuple[Word, int]] = []
        self.coordinator = Coordinator(
            subtasks=2, say=lambda word, number: self.words.append((word, number)), recounts=recounts
        )
        for subtask in (0, 1):
            self.coordinator.begins(subtask, 1)

    def acknowledge(
        self, subtask: int, number: int, *, attempt: int = 1, is_final: bool = False
    ) -> int | None:
        checkpoint = Checkpoint(number=number, position=10 * number, elements=())
        return self.coordinator.acknowledge(
            Part(subtask=subtask, attempt=attempt, checkpoint=checkpoint, elements=[], is_final=is_final)
        )


def test_a_checkpoint_is_complete_once_every_subtask_has_its_part_in() -> None:
    said = Said()

    assert said.acknowledge(0, 1) is None
    assert said.words == []
    assert said.acknowledge(1, 1) == 1
    assert said.words == [("done", 1)]


def test_a_completed_checkpoint_retires_those_before_it() -> None:
    said = Said()

    for number in (1, 2):
        for subtask in (0, 1):
            said.acknowledge(subtask, number)

    assert said.words == [("done", 1), ("done", 2), ("retire", 1)]


def test_the_part_of_a_superseded_attempt_completes_nothing() -> None:
    said = Said()
    said.coordinator.begins(0, 2)

    said.acknowledge(0, 1, attempt=1)

    assert said.acknowledge(1, 1) is None
    assert said.words == []


def test_a_part_that_arrives_after_a_later_completion_is_nobodys() -> None:
    said = Said()
    said.acknowledge(0, 1)
    for subtask in (0, 1):
        said.acknowledge(subtask, 2)

    assert said.acknowledge(1, 1) is None
    assert said.words == [("abort", 1), ("done", 2), ("retire", 1)]
    assert said.coordinator.latest == 2


def test_what_was_given_up_is_not_completed_late() -> None:
    said = Said()
    said.acknowledge(0, 1)
    said.coordinator.give_up(1)

    assert said.acknowledge(1, 1) is None
    assert said.words == [("abort", 1)]


def test_nobody_waits_for_a_subtask_that_has_ended() -> None:
    said = Said()
    said.acknowledge(0, 1, is_final=True)
    said.acknowledge(1, 1)
    said.acknowledge(1, 2)

    assert said.coordinator.finals(1) == [0]
    assert said.coordinator.ends(0, 1) == 2
    assert said.words == [("done", 1), ("done", 2), ("retire", 1)]


def test_a_superseded_attempt_cannot_end_its_subtask() -> None:
    said = Said()
    said.coordinator.begins(0, 2)

    said.coordinator.ends(0, 1)

    assert not said.coordinator.has_ended(0)


def test_a_restart_goes_back_to_the_latest_completed_checkpoint() -> None:
    said = Said()
    for subtask in (0, 1):
        said.acknowledge(subtask, 1)
    said.acknowledge(0, 2)

    assert said.coordinator.restart() == [0, 1]
    assert said.words[-1] == ("abort", 2)
    [part] = said.coordinator.restorable(0)
    assert part.checkpoint.position == 10


def test_the_number_of_a_barrier_comes_again_after_a_restart() -> None:
    said = Said(recounts=True)
    said.acknowledge(0, 1)
    said.coordinator.restart()
    for subtask in (0, 1):
        said.coordinator.begins(subtask, 2)

    said.acknowledge(0, 1, attempt=2)

    assert said.acknowledge(1, 1, attempt=2) == 1
    assert said.words == [("done", 1)]


def test_no_checkpoint_is_asked_for_while_an_attempt_is_missing_or_another_is_pending() -> None:
    said = Said()

    assert said.coordinator.trigger() == 1
    assert said.coordinator.trigger() is None
    said.coordinator.restart()
    said.coordinator.begins(0, 2)
    assert said.coordinator.trigger() is None
    said.coordinator.begins(1, 2)
    assert said.coordinator.trigger() == 2
