"""Readings, disagreement and the finish, clause by clause of `docs/reference/history-outside.md`."""

from __future__ import annotations

from harness.judge.checkers.outside.tests.labelled import Labelled, each, refuse_difference

_ONE = 'start\noffer id=1 key="k" expect=[["a"]]\n'
_TWO = _ONE + 'offer id=2 key="k" expect=[["b"]]\n'
_A, _SEEN_A = 'insert id=1 v=["a"]\n', 'table id=1 v=["a"]\n'
_B, _SEEN_B = 'insert id=2 v=["b"]\n', 'table id=2 v=["b"]\n'
_DONE = 'exit start=1 code=0\nfinished how="exit"\n'
_READ = "whole reading=1\n"
_QUIET = {"bounds": {"quiet": 5}}
_NO_LOG = {"changes": False}
_DEAD = {"dead_letters": "dead"}
_ORDER = {"order": "source"}

READINGS = (
    Labelled(
        claim="a read that counts another number of table rows does not count",
        events=_ONE + _A + _DONE + _SEEN_A + 'read of="table" rows=2\nread of="log" rows=1\n',
        says=["V8 unknown"],
    ),
    Labelled(
        claim="a table without its read is not whole although its rows convict",
        events=_ONE + _A + _DONE + _SEEN_A + _SEEN_A + 'read of="log" rows=1\n',
        says=["V8 fail duplicate:1"],
    ),
    Labelled(
        claim="without the dead letters that the header names reading 1 is not whole",
        events=_TWO + _A + _DONE + _SEEN_A + 'read of="table" rows=1\nread of="log" rows=1\n',
        header=_DEAD,
        says=["V8 unknown", "V20 unknown"],
    ),
    Labelled(
        claim="without a log the table and its dead letters are whole",
        events=_TWO + _DONE + _SEEN_A + _SEEN_B + _READ,
        sink=_NO_LOG,
        header=_DEAD,
        says=["V8 pass"],
    ),
    Labelled(
        claim="a log that was not read leaves order and fencing open",
        events=_TWO
        + _A
        + "start\n"
        + _B
        + 'finished how="file"\n'
        + _SEEN_A
        + _SEEN_B
        + 'read of="table" rows=2\n',
        claims=_ORDER,
        says=["V1 unknown", "V13 unknown", "V8 unknown"],
    ),
    Labelled(
        claim="the log of the highest reading begun must have been read",
        events=_TWO + _A + _B + _DONE + _SEEN_A + _SEEN_B + _READ + 'table reading=2 id=1 v=["a"]\n',
        claims=_ORDER,
        says=["V1 unknown"],
    ),
    Labelled(
        claim="a log that was not read convicts of what it shows",
        events=_TWO + _B + _A,
        claims=_ORDER,
        says=["V1 fail reordered:1"],
    ),
)

DISAGREEMENT = (
    Labelled(
        claim="a row that is taken away and is not there is a disagreement",
        events=_TWO + _B + 'delete id=9 v=["a"]\n' + _A + _DONE + _SEEN_A + _SEEN_B + _READ,
        claims=_ORDER,
        says=["V8 unknown", "V1 unknown", "V13 vacuous"],
    ),
    Labelled(
        claim="a row with another value is not there",
        events=_ONE + _A + 'update id=1 v=["a"] was={"id":1,"v":["b"]}\n' + _DONE + _SEEN_A + _READ,
        says=["V8 unknown"],
    ),
    Labelled(
        claim="a read of the log that counts another number is a disagreement",
        events=_TWO + _B + _A + _DONE + _SEEN_A + _SEEN_B + 'read of="table" rows=2\nread of="log" rows=3\n',
        claims=_ORDER,
        says=["V1 unknown", "V8 unknown"],
    ),
    Labelled(
        claim="a table that is not as the log leaves it is a disagreement in which the reading convicts",
        events=_ONE + _A + _DONE + _SEEN_A + _SEEN_A + _READ,
        says=["V8 fail duplicate:1"],
    ),
    Labelled(
        claim="in disagreement the log convicts of nothing",
        events=_ONE + _A + _A + _DONE + _SEEN_A + _READ,
        says=["V8 unknown"],
    ),
    Labelled(
        claim="in disagreement a row that only the log shows is lost and not deleted",
        events=_ONE + _A + _DONE + _READ,
        sink={"write": "replace"},
        says=["V8 fail lost:1"],
    ),
    Labelled(
        claim="a table whose read does not count is not compared",
        events=_ONE + _A + _A + _DONE + _SEEN_A + 'read of="table" rows=5\nread of="log" rows=2\n',
        says=["V8 fail duplicate:1"],
    ),
    Labelled(
        claim="a row of a transaction without its last counts in the read of the log and not in the replay",
        events=_ONE + _A + 'insert id=2 v=["b"] last=false\n' + _DONE + _SEEN_A + _READ,
        says=["V8 pass"],
    ),
)

FINISHED = (
    Labelled(
        claim="an exit with another code is no finish",
        events=_ONE + _A + 'exit start=1 code=1\nfinished how="exit"\n' + _SEEN_A + _READ,
        says=["V16 unknown"],
    ),
    Labelled(
        claim="an exit by the harness is no finish",
        events=_ONE + _A + 'exit start=1 code=0 by="harness"\nfinished how="exit"\n' + _SEEN_A + _READ,
        says=["V16 unknown"],
    ),
    Labelled(
        claim="an exit before the last offer is no finish",
        events='start\noffer id=1 expect=[]\nexit start=1 code=0\noffer id=2 expect=[]\nfinished how="exit"\n',
        says=["V16 unknown"],
    ),
    Labelled(
        claim="the exit of an earlier start is no finish",
        events=_ONE + "start\n" + 'exit start=1 code=0\nfinished how="exit"\n',
        says=["V16 unknown"],
    ),
    Labelled(
        claim="a file is always a finish",
        events=_TWO + _A + 'finished how="file"\n' + _SEEN_A + _READ,
        says=["V16 pass", "V8 fail lost:2"],
    ),
    Labelled(
        claim="all rows are there",
        events=_ONE + _A + 'finished how="all-rows"\n' + _SEEN_A + _READ,
        says=["V16 pass", "V8 pass"],
    ),
    Labelled(
        claim="for all rows a wrong row does not stand for the right one",
        events=_ONE + 'insert id=1 v=["x"]\nfinished how="all-rows"\ntable id=1 v=["x"]\n' + _READ,
        says=["V16 unknown", "V8 fail wrong-value:1"],
    ),
    Labelled(
        claim="for all rows what comes later is too late",
        events=_ONE + 'finished how="all-rows"\n' + _A + _SEEN_A + _READ,
        says=["V16 unknown"],
    ),
    Labelled(
        claim="for all rows an excused record is left out",
        events=_TWO
        + _A
        + 'fault f="kill" phase="begin"\nfinished how="all-rows"\ndead id=2\n'
        + _SEEN_A
        + _READ,
        header=_DEAD,
        says=["V16 pass"],
    ),
    Labelled(
        claim="for all rows without a log reading 1 stands for the replay",
        events=_ONE + 'finished how="all-rows"\n' + _SEEN_A + _READ,
        sink=_NO_LOG,
        says=["V16 pass"],
    ),
    Labelled(
        claim="for all rows without a log and without a whole reading there is no finish",
        events=_ONE + 'finished how="all-rows"\n' + _SEEN_A,
        sink=_NO_LOG,
        says=["V16 unknown"],
    ),
    Labelled(
        claim="in disagreement all rows are not borne out",
        events=_ONE + _A + 'finished how="all-rows"\n' + _SEEN_A + _SEEN_B + _READ,
        says=["V16 unknown", "V8 fail phantom:2"],
    ),
    Labelled(
        claim="settled holds after so much quiet",
        events=_ONE + _A + 'finished how="settled" at=6\n' + _SEEN_A + _READ,
        header=_QUIET,
        says=["V16 pass", "V8 pass"],
    ),
    Labelled(
        claim="settled is not borne out by less quiet",
        events=_ONE + _A + 'finished how="settled" at=4\n' + _SEEN_A + _READ,
        header=_QUIET,
        says=["V16 unknown"],
    ),
    Labelled(
        claim="a fault disturbs the quiet",
        events=_ONE
        + _A
        + 'fault f="cut" phase="begin" at=3\nfinished how="settled" at=7\n'
        + _SEEN_A
        + _READ,
        header=_QUIET,
        says=["V16 unknown"],
    ),
    Labelled(
        claim="an offer and a lookup disturb no quiet",
        events=_ONE
        + _A
        + "asked key=1 at=5\noffer id=3 expect=[] at=5\n"
        + 'finished how="settled" at=6\n'
        + _SEEN_A
        + _READ,
        header=_QUIET,
        says=["V16 pass"],
    ),
    Labelled(
        claim="without a quiet time nothing is settled",
        events=_ONE + _A + 'finished how="settled" at=60\n' + _SEEN_A + _READ,
        says=["V16 unknown"],
    ),
    Labelled(
        claim="a job that has exited is not settled",
        events=_ONE + _A + 'exit start=1 code=0\nfinished how="settled" at=60\n' + _SEEN_A + _READ,
        header=_QUIET,
        says=["V16 unknown"],
    ),
    Labelled(
        claim="a job that was never started is not settled",
        events='offer id=1 expect=[["a"]]\noffer id=2 expect=[["b"]]\n'
        + _B
        + 'finished how="settled" at=60\n'
        + _SEEN_B
        + _READ,
        header=_QUIET,
        says=["V16 unknown", "V8 unknown"],
    ),
    Labelled(
        claim="settled asks for the last record of each part alone",
        events=_TWO + _B + 'finished how="settled" at=6\n' + _SEEN_B + _READ,
        header=_QUIET,
        says=["V16 pass", "V8 fail lost:1"],
    ),
    Labelled(
        claim="settled is not borne out without the last record",
        events=_TWO + _A + 'finished how="settled" at=6\n' + _SEEN_A + _READ,
        header=_QUIET,
        says=["V16 unknown", "V8 unknown"],
    ),
    Labelled(
        claim="a last record that expects nothing is left out",
        events=_ONE + _A + "offer id=2 expect=[]\n" + 'finished how="settled" at=6\n' + _SEEN_A + _READ,
        header=_QUIET,
        says=["V16 pass"],
    ),
    Labelled(
        claim="settled is not borne out if a row comes later",
        events=_TWO + _B + 'finished how="settled" at=6\n' + _A + _SEEN_A + _SEEN_B + _READ,
        header=_QUIET,
        says=["V16 unknown", "V8 pass"],
    ),
    Labelled(
        claim="settled is not borne out if a further reading misses less",
        events=_TWO
        + 'finished how="settled" at=6\n'
        + _SEEN_B
        + _READ
        + 'table reading=2 id=1 v=["a"]\ntable reading=2 id=2 v=["b"]\nwhole reading=2\n',
        sink=_NO_LOG,
        header=_QUIET,
        says=["V16 unknown", "V8 unknown"],
    ),
)


@each(READINGS)
def test_readings(case: Labelled) -> None:
    refuse_difference(case)


@each(DISAGREEMENT)
def test_disagreement_of_log_and_table(case: Labelled) -> None:
    refuse_difference(case)


@each(FINISHED)
def test_a_finish_is_borne_out(case: Labelled) -> None:
    refuse_difference(case)
