"""V8 seen from outside, clause by clause of `docs/reference/history-outside.md`: labelled histories."""

from __future__ import annotations

from harness.judge.checkers.outside.tests.labelled import Labelled, each, refuse_difference

_START = "start\n"
_ONE = _START + 'offer id=1 expect=[["a"]]\n'
_TWO = _ONE + 'offer id=2 expect=[["b"]]\n'
_A, _SEEN_A = 'insert id=1 v=["a"]\n', 'table id=1 v=["a"]\n'
_DELETE_A = 'delete id=1 v=["a"]\n'
_X, _SEEN_X = 'insert id=1 v=["x"]\n', 'table id=1 v=["x"]\n'
_DONE = 'exit code=0 start=1\nfinished how="exit"\n'
_READ = "whole reading=1\n"
_AGAIN = "start\n"
_SEEN_AGAIN = 'table reading=2 id=1 v=["a"]\n'
_READ_AGAIN = "whole reading=2\n"
_REPLACE, _UPSERT, _NUMBERED = {"write": "replace"}, {"write": "upsert"}, {"j": "nr"}
_LEAST, _MOST = {"delivery": "at-least-once"}, {"delivery": "at-most-once"}
_FAULT = 'fault f="kill" phase="begin"\nfault f="kill" phase="end" evidence={"pid":1}\n'
_DEAD = {"dead_letters": "dead"}

IN_TABLES = (
    Labelled(
        claim="a right run passes",
        events=_ONE + _A + _DONE + _SEEN_A + _READ,
        says=["overall pass", "V8 pass", "V16 pass", "V1 not-claimed", "V9 not-claimed"],
    ),
    Labelled(
        claim="a row of an id that was never offered is a phantom, and twice a duplicate too",
        events=_ONE + _A + 'insert id=9 v=["z"]\ninsert id=9 v=["z"]\n' + _DONE,
        says=["V8 fail duplicate:9 phantom:9"],
    ),
    Labelled(
        claim="an id of text is another id than a number",
        events=_ONE + _A + 'insert id="1" v=["a"]\n' + _DONE + _SEEN_A + 'table id="1" v=["a"]\n' + _READ,
        says=['V8 fail phantom:"1"'],
    ),
    Labelled(
        claim="null is no offered id",
        events=_ONE + _A + 'insert id=null v=["a"]\n' + _DONE + _SEEN_A + 'table id=null v=["a"]\n' + _READ,
        says=["V8 fail phantom:null"],
    ),
    Labelled(
        claim="a row may stand before the offer of its record",
        events=_START + _A + 'offer id=1 expect=[["a"]]\n' + _DONE + _SEEN_A + _READ,
        says=["V8 pass"],
    ),
    Labelled(
        claim="an id of two columns is named by both",
        events=_START + 'offer id=[1,"x"] expect=[["a"]]\ninsert id=[1,null] v=["a"]\n',
        sink={"id": ["p", "q"]},
        says=["V8 fail phantom:[1,null]"],
    ),
    Labelled(
        claim="a row too many is a duplicate although it was taken away again",
        events=_ONE + _A + _A + _DELETE_A + _DONE + _SEEN_A + _READ,
        says=["V8 fail duplicate:1"],
    ),
    Labelled(
        claim="inside a transaction nothing is visible",
        events=_ONE
        + 'insert id=1 v=["a"] last=false\ninsert id=1 v=["a"] last=false\ndelete id=1 v=["a"]\n'
        + _DONE
        + _SEEN_A
        + _READ,
        says=["V8 pass"],
    ),
    Labelled(
        claim="a transaction without its last is not in the table",
        events=_ONE + _A + _DONE + _SEEN_A + _READ + 'insert id=1 v=["a"] last=false\n',
        says=["V8 pass"],
    ),
    Labelled(
        claim="a row rewritten equal is no double",
        events=_ONE + _A + 'update id=1 v=["a"] was={"id":1,"v":["a"]}\n' + _DONE + _SEEN_A + _READ,
        says=["V8 pass"],
    ),
    Labelled(
        claim="two rows of one value are both right if both are expected",
        events=_START + 'offer id=1 expect=[["a"],["a"]]\n' + _A + _A + _DONE + _SEEN_A + _SEEN_A + _READ,
        says=["V8 pass"],
    ),
    Labelled(
        claim="a right value too often is a duplicate, and the other is lost",
        events=_START + 'offer id=1 expect=[["a"],["b"]]\n' + _A + _A + _DONE + _SEEN_A + _SEEN_A + _READ,
        says=["V8 fail duplicate:1 lost:1"],
    ),
    Labelled(
        claim="a wrong row stands for one that is missing",
        events=_ONE + _X + _DONE + _SEEN_X + _READ,
        says=["V8 fail wrong-value:1"],
    ),
    Labelled(
        claim="a wrong row beside the right one is too many as well",
        events=_ONE + _A + _X + _DONE + _SEEN_A + _SEEN_X + _READ,
        says=["V8 fail duplicate:1 wrong-value:1"],
    ),
    Labelled(
        claim="a row of a record that expects none is wrong and no duplicate",
        events=_START + "offer id=1 expect=[]\n" + _A + _A + _DONE + _SEEN_A + _SEEN_A + _READ,
        says=["V8 fail wrong-value:1"],
    ),
    Labelled(
        claim="a record that fails expects nothing",
        events=_START + "offer id=1 fails=true\n" + _A + _DONE + _SEEN_A + _READ,
        says=["V8 fail wrong-value:1"],
    ),
    Labelled(
        claim="1 is not 1.0",
        events=_START
        + "offer id=1 expect=[[1]]\ninsert id=1 v=[1.0]\n"
        + _DONE
        + "table id=1 v=[1.0]\n"
        + _READ,
        says=["V8 fail wrong-value:1"],
    ),
    Labelled(
        claim="the order of an object's keys does not matter, and -0.0 is 0.0",
        events=_START
        + 'offer id=1 expect=[[{"p":0.0,"q":1}]]\ninsert id=1 v=[{"q":1,"p":-0.0}]\n'
        + _DONE
        + 'table id=1 v=[{"p":-0.0,"q":1}]\n'
        + _READ,
        says=["V8 pass"],
    ),
    Labelled(
        claim="with a j each row has its place",
        events=_START
        + 'offer id=1 expect=[["a"],["b"]]\ninsert id=1 j=0 v=["b"]\ninsert id=1 j=1 v=["b"]\n'
        + _DONE
        + 'table id=1 j=0 v=["b"]\ntable id=1 j=1 v=["b"]\n'
        + _READ,
        sink=_NUMBERED,
        says=["V8 fail wrong-value:1/0"],
    ),
    Labelled(
        claim="with a j a row beyond the last is wrong",
        events=_START
        + 'offer id=1 expect=[["a"]]\ninsert id=1 j=0 v=["a"]\ninsert id=1 j=1 v=["a"]\n'
        + _DONE
        + 'table id=1 j=0 v=["a"]\ntable id=1 j=1 v=["a"]\n'
        + _READ,
        sink=_NUMBERED,
        says=["V8 fail wrong-value:1/1"],
    ),
    Labelled(
        claim="at least once allows doubles, each with a right value",
        events=_ONE + _A + _A + _DONE + _SEEN_A + _SEEN_A + _READ,
        claims=_LEAST,
        says=["V8 pass"],
    ),
    Labelled(
        claim="at least once does not allow a wrong double",
        events=_ONE + _A + _X + _DONE + _SEEN_A + _SEEN_X + _READ,
        claims=_LEAST,
        says=["V8 fail wrong-value:1"],
    ),
)

WITHOUT_EXPECT = (
    Labelled(
        claim="without an expect any one row is right",
        events=_START + "offer id=1\n" + _X + _DONE + _SEEN_X + _READ,
        header={"expect_from": "calm"},
        says=["V8 vacuous", "overall vacuous"],
    ),
    Labelled(
        claim="without an expect and without a j two different rows are no duplicate",
        events=_ONE
        + _A
        + 'offer id=2\ninsert id=2 v=["p"]\ninsert id=2 v=["q"]\n'
        + _DONE
        + _SEEN_A
        + 'table id=2 v=["p"]\ntable id=2 v=["q"]\n'
        + _READ,
        says=["V8 pass"],
    ),
    Labelled(
        claim="without an expect two equal rows are a duplicate",
        events=_START + 'offer id=2\ninsert id=2 v=["p"]\ninsert id=2 v=["p"]\n',
        says=["V8 fail duplicate:2"],
    ),
    Labelled(
        claim="without an expect and with a j two rows of a j are a duplicate",
        events=_START + 'offer id=2\ninsert id=2 j=0 v=["p"]\ninsert id=2 j=0 v=["q"]\n',
        sink=_NUMBERED,
        says=["V8 fail duplicate:2/0"],
    ),
    Labelled(
        claim="without an expect the lower j of one that is shown must be there",
        events=_START + 'offer id=2\ninsert id=2 j=2 v=["p"]\n' + _DONE + 'table id=2 j=2 v=["p"]\n' + _READ,
        sink=_NUMBERED,
        says=["V8 fail lost:2/0 lost:2/1"],
    ),
    Labelled(
        claim="nobody knows whether a record without an expect and without a row yields one",
        events=_ONE + "offer id=2\n" + _A + _DONE + _SEEN_A + _READ,
        says=["V8 unknown"],
    ),
    Labelled(
        claim="at most once allows it",
        events=_ONE + "offer id=2\n" + _A + _DONE + _SEEN_A + _READ,
        claims=_MOST,
        says=["V8 pass"],
    ),
    Labelled(
        claim="with expect_from none nothing says which values are right",
        events=_START + "offer id=1\n" + _X + _DONE + _SEEN_X + _READ,
        header={"expect_from": "none"},
        says=["V8 vacuous", "overall vacuous"],
    ),
)

UPSERTS = (
    Labelled(
        claim="an upsert may give other values if the last are right",
        events=_ONE + _X + 'update id=1 v=["a"] was={"id":1,"v":["x"]}\n' + _DONE + _SEEN_A + _READ,
        sink=_UPSERT,
        says=["V8 pass"],
    ),
    Labelled(
        claim="an upsert whose last value is wrong is convicted by the reading",
        events=_ONE + _X + _DONE + _SEEN_X + _READ,
        sink=_UPSERT,
        says=["V8 fail wrong-value:1"],
    ),
    Labelled(
        claim="an upsert that is not finished is not judged by its values",
        events=_ONE + _X + _SEEN_X + _READ,
        sink=_UPSERT,
        says=["V8 unknown"],
    ),
    Labelled(
        claim="an upsert is convicted of more rows than expected in the log",
        events=_ONE + _X + _A + 'delete id=1 v=["x"]\n' + _SEEN_A + _READ,
        sink=_UPSERT,
        says=["V8 fail duplicate:1"],
    ),
    Labelled(
        claim="an upsert that is not finished is not convicted of an equal row by its value",
        events=_START + 'offer id=1 expect=[["a"],["b"]]\n' + _A + _A + _SEEN_A + _SEEN_A + _READ,
        sink=_UPSERT,
        says=["V8 unknown"],
    ),
    Labelled(
        claim="a phantom is no value",
        events=_ONE + 'insert id=9 v=["a"]\n',
        sink=_UPSERT,
        says=["V8 fail phantom:9"],
    ),
)

TAKEN_BACK = (
    Labelled(
        claim="what an append takes away is deleted although it comes back",
        events=_ONE + _A + _DELETE_A + _A + _DONE + _SEEN_A + _READ,
        says=["V8 fail deleted:1"],
    ),
    Labelled(
        claim="what an append takes away is deleted although the job is not finished",
        events=_ONE + _A + _DELETE_A,
        says=["V8 fail deleted:1"],
    ),
    Labelled(
        claim="what one transaction takes away and adds again is not deleted",
        events=_ONE + _A + 'delete id=1 v=["a"] last=false\n' + _A + _DONE + _SEEN_A + _READ,
        says=["V8 pass"],
    ),
    Labelled(
        claim="an update to a wrong value is wrong and not deleted",
        events=_ONE + _A + 'update id=1 v=["x"] was={"id":1,"v":["a"]}\n' + _DONE + _SEEN_X + _READ,
        says=["V8 fail wrong-value:1"],
    ),
    Labelled(
        claim="an update to another id takes the row away",
        events=_TWO
        + _A
        + 'update id=2 v=["b"] was={"id":1,"v":["a"]}\n'
        + _DONE
        + 'table id=2 v=["b"]\n'
        + _READ,
        says=["V8 fail deleted:1"],
    ),
    Labelled(
        claim="taking a double away is not deleting",
        events=_ONE + _A + _A + _DELETE_A + _DONE + _SEEN_A + _READ,
        claims=_LEAST,
        says=["V8 pass"],
    ),
    Labelled(
        claim="what a replace takes away may come back",
        events=_ONE + _A + _DELETE_A + _A + _DONE + _SEEN_A + _READ,
        sink=_REPLACE,
        says=["V8 pass"],
    ),
    Labelled(
        claim="what a replace takes away and does not bring back is deleted and not lost",
        events=_ONE + _A + _DELETE_A + _DONE + _READ,
        sink=_REPLACE,
        says=["V8 fail deleted:1"],
    ),
    Labelled(
        claim="what a replace has taken away is unknown while it is not finished",
        events=_ONE + _A + _DELETE_A + _READ,
        sink=_REPLACE,
        says=["V8 unknown"],
    ),
    Labelled(
        claim="at most once does not allow what is taken back",
        events=_ONE + _A + _DELETE_A + _DONE + _READ,
        sink=_REPLACE,
        claims=_MOST,
        says=["V8 fail deleted:1"],
    ),
    Labelled(
        claim="what a replace takes away from an excused record is not missed",
        events=_ONE + _FAULT + _A + _DELETE_A + _DONE + "dead id=1\n" + _READ,
        sink=_REPLACE,
        header=_DEAD,
        says=["V8 pass"],
    ),
)

LOST = (
    Labelled(
        claim="what is written and taken away within a transaction is never visible",
        events=_START
        + 'offer id=1\ninsert id=1 v=["a"] last=false\n'
        + _DELETE_A
        + 'exit start=1 code=0\nfinished how="exit"\n'
        + _READ,
        claims=_MOST,
        says=["V8 vacuous"],
    ),
    Labelled(
        claim="what is missing when the job is finished is lost",
        events=_TWO + _A + _DONE + _SEEN_A + _READ,
        says=["V8 fail lost:2"],
    ),
    Labelled(
        claim="at most once allows it to be lost",
        events=_TWO + _A + _DONE + _SEEN_A + _READ,
        claims=_MOST,
        says=["V8 pass"],
    ),
    Labelled(
        claim="what is missing while the job is not finished is unknown",
        events=_TWO + _A + _SEEN_A + _READ,
        says=["V8 unknown", "V16 unknown"],
    ),
    Labelled(
        claim="one of several rows that is missing is lost",
        events=_START + 'offer id=1 expect=[["a"],["b"]]\n' + _A + _DONE + _SEEN_A + _READ,
        says=["V8 fail lost:1"],
    ),
    Labelled(
        claim="a record in the dead letters is excused if a fault was there",
        events=_ONE + _FAULT + _DONE + "dead id=1\n" + _READ,
        header=_DEAD,
        says=["V8 vacuous", "V20 pass"],
    ),
    Labelled(
        claim="a record in the dead letters is not excused without a fault",
        events=_ONE + _DONE + "dead id=1\n" + _READ,
        header=_DEAD,
        says=["V8 fail lost:1"],
    ),
    Labelled(
        claim="nothing is lost if nothing was read",
        events=_ONE + _DONE,
        says=["V8 unknown"],
    ),
    Labelled(
        claim="without a log the reading alone shows what is lost",
        events=_TWO + _DONE + _SEEN_A + _READ,
        sink={"changes": False},
        says=["V8 fail lost:2"],
    ),
    Labelled(
        claim="without an offer V8 is vacuous and so is the verdict",
        events=_START + 'exit start=1 code=0\nfinished how="file"\n' + _READ,
        says=["V8 vacuous", "overall vacuous"],
    ),
)

STARTED_AGAIN = (
    Labelled(
        claim="a further start may change nothing",
        events=_ONE + _A + _DONE + _SEEN_A + _READ + _AGAIN + _SEEN_AGAIN + _READ_AGAIN,
        says=["V8 pass"],
    ),
    Labelled(
        claim="a further start that doubles a row has changed it",
        events=_ONE + _A + _DONE + _SEEN_A + _READ + _AGAIN + _A + 2 * _SEEN_AGAIN + _READ_AGAIN,
        says=["V8 fail changed-again:1 duplicate:1"],
    ),
    Labelled(
        claim="at least once allows a further start to double a row",
        events=_ONE + _A + _DONE + _SEEN_A + _READ + _AGAIN + _A + 2 * _SEEN_AGAIN + _READ_AGAIN,
        claims=_LEAST,
        says=["V8 pass"],
    ),
    Labelled(
        claim="at least once does not allow a further start to give another value",
        events=_ONE
        + _A
        + _DONE
        + _SEEN_A
        + _READ
        + _AGAIN
        + 'update id=1 v=["x"] was={"id":1,"v":["a"]}\ntable reading=2 id=1 v=["x"]\n'
        + _READ_AGAIN,
        claims=_LEAST,
        says=["V8 fail changed-again:1 wrong-value:1"],
    ),
    Labelled(
        claim="a further start without its reading leaves V8 open",
        events=_ONE + _A + _DONE + _SEEN_A + _READ + _AGAIN,
        says=["V8 unknown"],
    ),
    Labelled(
        claim="a further reading that is not whole leaves V8 open",
        events=_ONE + _A + _DONE + _SEEN_A + _READ + _SEEN_AGAIN,
        says=["V8 unknown"],
    ),
    Labelled(
        claim="a start after a finish that is not borne out asks for no second reading",
        events=_ONE + _A + 'finished how="exit"\n' + _SEEN_A + _READ + _AGAIN,
        says=["V8 pass", "V16 unknown"],
    ),
)


@each(IN_TABLES)
def test_rows_that_are_in_the_table(case: Labelled) -> None:
    refuse_difference(case)


@each(WITHOUT_EXPECT)
def test_records_whose_rows_are_not_known(case: Labelled) -> None:
    refuse_difference(case)


@each(UPSERTS)
def test_jobs_that_write_rows_again(case: Labelled) -> None:
    refuse_difference(case)


@each(TAKEN_BACK)
def test_rows_that_are_taken_back(case: Labelled) -> None:
    refuse_difference(case)


@each(LOST)
def test_rows_that_are_missing(case: Labelled) -> None:
    refuse_difference(case)


@each(STARTED_AGAIN)
def test_jobs_that_are_started_once_more(case: Labelled) -> None:
    refuse_difference(case)
