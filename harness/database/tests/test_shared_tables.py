"""What attempts on different hosts share in the database: parts of checkpoints, and marks of what was done."""

from __future__ import annotations

import pytest

from harness.database.shared_tables import MarkTable, TableFiles
from harness.database.tests.conftest import RunDatabase
from harness.history.event import In, Out
from harness.history.notes import Dies
from harness.history.tests.lines import line

pytestmark = pytest.mark.real


def test_a_part_is_read_on_another_host_and_its_subtasks_own(database: RunDatabase) -> None:
    here, there, other = (TableFiles(database.sink, subtask=subtask) for subtask in (0, 0, 1))
    here.write("checkpoint-000001-attempt-0001", b"\x00part")

    assert there.read("checkpoint-000001-attempt-0001") == b"\x00part"
    assert there.names() == ["checkpoint-000001-attempt-0001"]
    assert other.names() == []


def test_a_part_can_be_cut_and_removed(database: RunDatabase) -> None:
    files = TableFiles(database.sink, subtask=0)
    files.write("checkpoint-000001-attempt-0001", b"whole")

    files.cut("checkpoint-000001-attempt-0001", 2)
    assert files.read("checkpoint-000001-attempt-0001") == b"wh"
    files.remove("checkpoint-000001-attempt-0001")

    with pytest.raises(FileNotFoundError):
        files.read("checkpoint-000001-attempt-0001")


def test_marks_are_of_earlier_attempts_and_of_the_kinds_that_count(database: RunDatabase) -> None:
    marks = MarkTable(database.sink, subtask=0, kinds={"in", "~dies"})
    taken, dies = line(In, pos=0, id=1), line(Dies, fault="f", phase="emit", hit=1, how="exit")
    for one in (taken, taken, line(Out), dies):
        marks(one)
    later = MarkTable(database.sink, subtask=0, kinds={"in", "~dies"})
    later(line(In, a=2, pos=0, id=1))

    told = [type(one) for one in later.lines(before=2)]
    assert told == [In, Dies]
