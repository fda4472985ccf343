"""A kill is believed by the note before it, the silence after it, the process that is gone, and a next attempt."""

from __future__ import annotations

import pytest

from harness.faults.tests.entries import made
from harness.faults.tests.killed_run import killed_run
from harness.history.event import Failed, Kill, Out, Start
from harness.history.notes import InProcess, Line, ProcessReaped
from harness.history.tests.lines import line

A_KILL = made("kill_worker", id="kill", subtask=1, when={"phase": "snapshot-taken", "hit": 3})


def test_a_kill_is_believed_when_it_was_reaped_nothing_followed_and_a_next_attempt_began() -> None:
    killing = A_KILL.recorded(killed_run())

    assert killing is not None
    assert (killing.began_us, killing.ended_us) == (5000, 9000)
    assert killing.evidence == {
        "subtask": 1, "phase": "snap.end", "hit": 3, "how": "sigkill", "attempt": 1, "next_attempt": 2,
        "restart_ms": 4.0,
    }  # fmt: skip


def test_a_kill_whose_phase_never_came_is_none() -> None:
    assert A_KILL.model_copy(update={"id": "other"}).recorded(killed_run()) is None


def test_a_kill_that_nobody_reaped_is_not_believed() -> None:
    killing = A_KILL.recorded([one for one in killed_run() if not isinstance(one, Kill)])

    assert killing is not None
    assert killing.evidence == {}


def test_a_kill_after_which_the_attempt_still_spoke_is_not_believed() -> None:
    killing = A_KILL.recorded([*killed_run(), line(Out, 5100, n=2)])

    assert killing is not None
    assert killing.evidence == {}


@pytest.mark.parametrize(
    "successor", [{"s": 1, "a": 1}, {"s": 0, "a": 2}], ids=["same attempt", "other subtask"]
)
def test_a_kill_without_a_successor_is_not_believed(successor: dict[str, int]) -> None:
    lines = killed_run()[:-2]

    killing = A_KILL.recorded([*lines, line(Start, 9000, n=0, **successor)])

    assert killing is not None
    assert (killing.ended_us, killing.evidence) == (None, {})


def with_reaping(how: str, code: int, *, failed: bool = False) -> list[Line]:
    """The run of `killed_run`, died in that way, with the word of whoever reaped the process."""
    lines = killed_run(how=how)
    lines.insert(1, line(InProcess, 120, n=1, pid=77, started=5))
    lines.append(line(ProcessReaped, 7100, n=9, pid=77, code=code))
    if failed:
        lines = [one for one in lines if not isinstance(one, Kill)]
        lines.append(line(Failed, 5100, n=2, error="InjectedFailure: ..."))
    return lines


@pytest.mark.parametrize(("how", "code"), [("sigkill", -9), ("sigsegv", -11), ("exit", 137)])
def test_a_death_is_believed_if_the_process_ended_as_asked(how: str, code: int) -> None:
    as_asked, otherwise = (
        A_KILL.recorded(with_reaping(how, code)),
        A_KILL.recorded(with_reaping(how, 0)),
    )

    assert as_asked is not None
    assert as_asked.evidence["code"] == code
    assert otherwise is not None
    assert otherwise.evidence == {}


def test_an_exception_is_believed_if_the_attempt_said_that_it_failed_and_nothing_else() -> None:
    lines = with_reaping("exception", 1, failed=True)
    spoke = [*lines, line(Out, 5200, n=3)]

    believed, not_believed = A_KILL.recorded(lines), A_KILL.recorded(spoke)

    assert believed is not None
    assert (believed.evidence["how"], believed.measured_us) == ("exception", 5100)
    assert not_believed is not None
    assert not_believed.evidence == {}
