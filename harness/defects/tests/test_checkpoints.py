"""Defects of checkpoints: each changes what its name says, and only where there is such a thing."""

from __future__ import annotations

import pytest

from harness.defects.checkpoints import omitting_blocked, one_early, one_late
from harness.sim.mail_task import MailTask
from reference_impl.source_task import Checkpoint, SourceTask


class Coordination:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[Checkpoint] = []

    def completes(self, checkpoint: Checkpoint) -> None:
        self.told.append(checkpoint)


@pytest.mark.parametrize(("kind", "by"), [(one_early, -1), (one_late, 1)])
def test_a_shifted_offset_is_one_off_and_nothing_else(kind: object, by: int) -> None:
    assert callable(kind)
    coordination = kind(Coordination)()
    taken = Checkpoint(number=3, position=7, elements=())

    coordination.completes(taken)

    assert coordination.told == [Checkpoint(number=3, position=7 + by, elements=())]


def test_before_the_first_element_there_is_none_to_resume_at() -> None:
    coordination = one_early(Coordination)()

    coordination.completes(Checkpoint(number=1, position=0, elements=()))

    assert coordination.told[0].position == 0


def test_what_is_not_blocked_is_not_omitted() -> None:
    assert omitting_blocked(SourceTask) is SourceTask
    assert omitting_blocked(MailTask) is not MailTask
