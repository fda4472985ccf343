"""V1, V3, V13, V16, V20, V23 and V24 seen from outside, clause by clause of `docs/reference/history-outside.md`."""

from __future__ import annotations

from harness.judge.checkers.outside.tests.labelled import Labelled, each, refuse_difference

_OFFERS = 'offer id=1 key="k" expect=[["a"]]\noffer id=2 key="k" expect=[["b"]]\noffer id=3 key="l" expect=[["c"]]\n'
_RUN = "start\n" + _OFFERS
_A, _B, _C = 'insert id=1 v=["a"]\n', 'insert id=2 v=["b"]\n', 'insert id=3 v=["c"]\n'
_TABLE = 'table id=1 v=["a"]\ntable id=2 v=["b"]\ntable id=3 v=["c"]\nwhole reading=1\n'
_END = 'finished how="file"\n' + _TABLE
_POISON = "start\noffer id=1 fails=true\n"
_EMPTY = 'finished how="file"\nwhole reading=1\n'
_SOURCE, _KEY, _EXPLAINED = {"order": "source"}, {"order": "key"}, {"explained": True}
_DEAD = {"dead_letters": "dead"}
_RECOVER = {"bounds": {"recover": 5}}
_BEGIN = 'fault f="kill" phase="begin"\n'
_PROVEN = 'fault f="kill" phase="end" evidence={"pid":1}\n'

ORDER = (
    Labelled(
        claim="rows in the order of the source pass",
        events=_RUN + _A + _B + _C + _END,
        claims=_SOURCE,
        says=["V1 pass", "V3 pass"],
    ),
    Labelled(
        claim="each slot after a later one is reordered",
        events=_RUN + _C + _A + _B + _END,
        claims=_SOURCE,
        says=["V1 fail reordered:1 reordered:2", "V3 pass"],
    ),
    Labelled(
        claim="records of other keys are not compared",
        events=_RUN + _C + _A + _B + _END,
        claims=_KEY,
        says=["V1 not-claimed", "V3 pass"],
    ),
    Labelled(
        claim="records of one key are compared",
        events=_RUN + _B + _C + _A + _END,
        claims=_KEY,
        says=["V3 fail key-reordered:1"],
    ),
    Labelled(
        claim="records without a key are not compared by it",
        events="start\noffer id=1 expect=[]\noffer id=2 expect=[]\noffer id=3 key=1\n" + _B + _A,
        claims=_KEY,
        says=["V3 unknown"],
    ),
    Labelled(
        claim="without any key V3 is not claimed",
        events="start\noffer id=1\n" + _A,
        claims=_KEY,
        says=["V3 not-claimed"],
    ),
    Labelled(
        claim="a null key is a key",
        events="start\noffer id=1 key=null\noffer id=2 key=null\n" + _B + _A,
        claims=_KEY,
        says=["V3 fail key-reordered:1"],
    ),
    Labelled(
        claim="parts of the source are not compared",
        events='start\noffer id=1 pos=5 expect=[["a"]]\noffer id=2 part=1 pos=1 expect=[["b"]]\n' + _A + _B,
        claims=_SOURCE,
        header={"partitions": 2},
        says=["V1 unknown"],
    ),
    Labelled(
        claim="inside a transaction the order counts too",
        events=_RUN + 'insert id=2 v=["b"] last=false\n' + _A + _C + _END,
        claims=_SOURCE,
        says=["V1 fail reordered:1"],
    ),
    Labelled(
        claim="a rewriting later does not count",
        events=_RUN + _A + _B + _C + 'update id=1 v=["a"] was={"id":1,"v":["a"]}\n' + _END,
        claims=_SOURCE,
        says=["V1 pass"],
    ),
    Labelled(
        claim="with a j the rows of one record are in order",
        events='start\noffer id=1 expect=[["a"],["b"]]\ninsert id=1 j=1 v=["b"]\ninsert id=1 j=0 v=["a"]\n',
        claims=_SOURCE,
        sink={"j": "nr"},
        says=["V1 fail reordered:1/0"],
    ),
    Labelled(
        claim="one row alone is in no order",
        events='start\noffer id=1 expect=[["a"]]\n'
        + _A
        + 'finished how="file"\ntable id=1 v=["a"]\nwhole reading=1\n',
        claims=_SOURCE,
        says=["V1 vacuous", "overall pass"],
    ),
)

FENCING = (
    Labelled(
        claim="an effect of a lower start after one of a higher is a zombie's",
        events=_RUN + _A + "start\n" + _B + 'insert id=3 v=["c"] start=1 tx=9\n' + _END,
        says=["V13 fail zombie-effect:9/1"],
    ),
    Labelled(
        claim="a transaction that changes nothing has no effect",
        events=_RUN
        + _A
        + "start\n"
        + _B
        + _C
        + 'delete id=1 v=["a"] start=1 last=false\ninsert id=1 v=["a"] start=1\n'
        + _END,
        says=["V13 pass"],
    ),
    Labelled(
        claim="an effect of which the start is not known leaves V13 open",
        events=_RUN + _A + "start\n" + _B + 'insert id=3 v=["c"] start=null\n' + _END,
        says=["V13 unknown"],
    ),
    Labelled(
        claim="with one start V13 is vacuous whatever else",
        events=_RUN + _A + 'insert id=3 v=["c"] start=null\n',
        says=["V13 vacuous"],
    ),
    Labelled(
        claim="without any known start V13 is not claimed",
        events=_RUN + "start\n" + 'insert id=3 v=["c"] start=null\n',
        says=["V13 not-claimed"],
    ),
    Labelled(
        claim="at least once does not claim fencing by itself",
        events=_RUN + _A + "start\n" + _B + 'insert id=3 v=["c"] start=1\n' + _END,
        claims={"delivery": "at-least-once"},
        says=["V13 not-claimed"],
    ),
    Labelled(
        claim="at least once may claim fencing",
        events=_RUN + _A + "start\n" + _B + 'insert id=3 v=["c"] start=1 tx=9\n' + _END,
        claims={"delivery": "at-least-once", "fenced": True},
        says=["V13 fail zombie-effect:9/1"],
    ),
)

LIVENESS = (
    Labelled(
        claim="a job that is given up is stuck at the first record that misses something",
        events=_RUN + _B + 'giveup why="silence"\n',
        says=["V16 fail stuck:1"],
    ),
    Labelled(
        claim="a job that is given up with all its rows is stuck without a record",
        events=_RUN + _A + _B + _C + 'giveup why="silence"\n',
        says=["V16 fail stuck:"],
    ),
    Labelled(
        claim="what came after the giveup was missing at it",
        events=_RUN + 'giveup why="silence"\n' + _A,
        says=["V16 fail stuck:1"],
    ),
    Labelled(
        claim="a fault that is on excuses",
        events=_RUN + _BEGIN + 'giveup why="silence"\n',
        says=["V16 unknown"],
    ),
    Labelled(
        claim="a fault that ended less than recover before excuses",
        events=_RUN + _BEGIN + _PROVEN + 'giveup why="silence" at=4\n',
        header=_RECOVER,
        says=["V16 unknown"],
    ),
    Labelled(
        claim="a fault that ended recover before does not excuse",
        events=_RUN + _BEGIN + _PROVEN + 'giveup why="silence" at=6\n',
        header=_RECOVER,
        says=["V16 fail stuck:1"],
    ),
    Labelled(
        claim="a job that fails over a record that no job can process is not stuck",
        events=_POISON + 'exit start=1 code=1\ngiveup why="starts"\n',
        says=["V16 unknown"],
    ),
    Labelled(
        claim="a job that fails although the record is a dead letter is stuck",
        events=_POISON + 'exit start=1 code=1\ngiveup why="starts"\ndead id=1\nwhole reading=1\n',
        header=_DEAD,
        says=["V16 fail stuck:"],
    ),
    Labelled(
        claim="a job that was stopped by the harness did not fail over it",
        events=_POISON + 'exit start=1 code=1 by="harness"\ngiveup why="starts"\n',
        says=["V16 fail stuck:"],
    ),
)

ERRORS = (
    Labelled(
        claim="a record that fails and shows up nowhere is swallowed",
        events=_POISON + _EMPTY,
        says=["V20 fail swallowed:1"],
    ),
    Labelled(
        claim="an exit with a code after its offer shows it",
        events=_POISON + "exit start=1 code=2\nstart\n" + _EMPTY,
        says=["V20 pass"],
    ),
    Labelled(
        claim="an exit before its offer does not show it",
        events="start\nexit start=1 code=2\noffer id=1 fails=true\n" + _EMPTY,
        says=["V20 fail swallowed:1"],
    ),
    Labelled(
        claim="a signal does not show it",
        events=_POISON + "exit start=1 signal=9\nstart\n" + _EMPTY,
        says=["V20 fail swallowed:1"],
    ),
    Labelled(
        claim="a dead letter shows it",
        events=_POISON + 'finished how="file"\ndead id=1\nwhole reading=1\n',
        header=_DEAD,
        says=["V20 pass", "V8 vacuous"],
    ),
    Labelled(
        claim="while the job is not finished it is unknown",
        events=_POISON + "whole reading=1\n",
        says=["V20 unknown"],
    ),
    Labelled(
        claim="without the dead letters nothing is swallowed",
        events=_POISON + 'finished how="file"\nread of="table" rows=0\nread of="log" rows=0\n',
        header=_DEAD,
        says=["V20 unknown"],
    ),
    Labelled(
        claim="a dead letter that was never offered is foreign, and twice is double",
        events=_RUN + "dead id=9\ndead id=9\nwhole reading=1\n",
        header=_DEAD,
        says=["V20 fail row-doubled:9 row-foreign:9"],
    ),
    Labelled(
        claim="at least once allows a second dead letter",
        events=_POISON + "dead id=1\ndead id=1\nwhole reading=1\n",
        claims={"delivery": "at-least-once"},
        header=_DEAD,
        says=["V20 pass"],
    ),
    Labelled(
        claim="a record in the table and in the dead letters is routed twice",
        events=_RUN + _A + "dead id=1\n" + 'table id=1 v=["a"]\nwhole reading=1\n',
        header=_DEAD,
        says=["V20 fail double-routed:1"],
    ),
    Labelled(
        claim="at least once allows a dead letter before a crash and a row after it",
        events=_RUN + _A + "dead id=1\n" + 'table id=1 v=["a"]\nwhole reading=1\n',
        claims={"delivery": "at-least-once"},
        header=_DEAD,
        says=["V20 pass"],
    ),
    Labelled(
        claim="without a record that fails and without a dead letter V20 is vacuous",
        events=_RUN + "whole reading=1\n",
        header=_DEAD,
        says=["V20 vacuous"],
    ),
    Labelled(
        claim="without a table of dead letters and a record that fails V20 is not claimed",
        events=_RUN,
        says=["V20 not-claimed"],
    ),
)

EVIDENCE = (
    Labelled(
        claim="a fault after which a missing row appears has bitten in time",
        events=_RUN + _A + _BEGIN + _PROVEN + _B + _C + _END,
        says=["V23 pass", "overall pass"],
    ),
    Labelled(
        claim="a row that appears while the fault is on is in time",
        events=_RUN + _A + _B + _BEGIN + _C + _PROVEN + _END,
        says=["V23 pass"],
    ),
    Labelled(
        claim="a record that is offered after the fault was missing at it",
        events="start\n" + _BEGIN + _PROVEN + _OFFERS + _A + _B + _C + _END,
        says=["V23 pass"],
    ),
    Labelled(
        claim="a fault after the last row has not bitten in time",
        events=_RUN + _A + _B + _C + _BEGIN + _PROVEN + _END,
        says=["V23 vacuous", "overall vacuous"],
    ),
    Labelled(
        claim="a double after the fault is nothing that was missing",
        events=_RUN + _A + _B + _C + _BEGIN + _PROVEN + _A,
        says=["V23 vacuous"],
    ),
    Labelled(
        claim="a row that was taken away later and comes back was not missing at the fault",
        events=_RUN + _A + _B + _C + _BEGIN + _PROVEN + 'delete id=1 v=["a"]\n' + _A + _END,
        sink={"write": "replace"},
        says=["V23 vacuous"],
    ),
    Labelled(
        claim="one fault in time is enough",
        events=_RUN + _BEGIN + _PROVEN + _A + _B + _C + _BEGIN + _PROVEN + _END,
        says=["V23 pass"],
    ),
    Labelled(
        claim="a fault without evidence is vacuous",
        events=_RUN + _BEGIN + 'fault f="kill" phase="end" evidence={}\n' + _A + _B + _C + _END,
        says=["V23 vacuous"],
    ),
    Labelled(
        claim="a fault that failed by itself is unknown",
        events=_RUN + _BEGIN + 'fault f="kill" phase="end" evidence={} error=null\n' + _A + _B + _C + _END,
        says=["V23 unknown"],
    ),
    Labelled(
        claim="without a log nobody asks whether a fault bit in time",
        events=_RUN + _BEGIN + _PROVEN + _END,
        sink={"changes": False},
        says=["V23 pass"],
    ),
    Labelled(
        claim="a fault that was expected must begin",
        events=_RUN + _A + _B + _C + _END,
        header={"expects": {"faults": ["cut"]}},
        says=["V23 vacuous"],
    ),
    Labelled(
        claim="fewer lookups than expected are vacuous",
        events=_RUN + _A + _B + _C + "asked key=1\n" + _END,
        header={"expects": {"asked": 2, "records": 3, "starts": 1}},
        says=["V23 vacuous"],
    ),
    Labelled(
        claim="as many as expected pass",
        events=_RUN + _A + _B + _C + "asked key=1\n" + _END,
        header={"expects": {"asked": 1, "records": 3, "starts": 1}},
        says=["V23 pass"],
    ),
    Labelled(
        claim="without a fault and an expectation V23 is not claimed", events=_RUN, says=["V23 not-claimed"]
    ),
)

FAILURES = (
    Labelled(
        claim="an exit with a code that nothing explains is unexplained",
        events=_RUN + "exit start=1 code=1\nstart\n",
        claims=_EXPLAINED,
        says=["V24 fail unexplained-failure:1"],
    ),
    Labelled(
        claim="an exit with code 0 asks for nothing",
        events=_RUN + "exit start=1 code=0\n",
        claims=_EXPLAINED,
        says=["V24 pass"],
    ),
    Labelled(
        claim="an exit of which nothing but its cause is known asks for nothing",
        events=_RUN + 'exit start=1 by="nobody"\n',
        claims=_EXPLAINED,
        says=["V24 pass"],
    ),
    Labelled(
        claim="what the harness or the outside did is explained",
        events=_RUN + 'exit start=1 signal=9 by="harness"\nstart\nexit start=2 signal=15 by="outside"\n',
        claims=_EXPLAINED,
        says=["V24 pass"],
    ),
    Labelled(
        claim="a fault that it names explains it if it had not ended before the start",
        events=_RUN
        + _BEGIN
        + _PROVEN
        + 'exit start=1 signal=9 by="kill"\nstart\nexit start=2 signal=9 by="kill"\n',
        claims=_EXPLAINED,
        says=["V24 fail unexplained-failure:2"],
    ),
    Labelled(
        claim="a fault that can make a start exit explains it while it is on",
        events=_RUN + 'fault f="cut" phase="begin" can=["exit"]\nexit start=1 code=1\n',
        claims=_EXPLAINED,
        says=["V24 pass"],
    ),
    Labelled(
        claim="a fault that cannot explains nothing",
        events=_RUN + 'fault f="cut" phase="begin"\nexit start=1 code=1\n',
        claims=_EXPLAINED,
        says=["V24 fail unexplained-failure:1"],
    ),
    Labelled(
        claim="a fault that can explains it for so long after its end",
        events=_RUN
        + 'fault f="cut" phase="begin" can=["exit"]\nfault f="cut" phase="end" evidence={"n":1}\n'
        + "exit start=1 code=1 at=4\nstart\nexit start=2 code=1 at=9\n",
        claims=_EXPLAINED,
        header=_RECOVER,
        says=["V24 fail unexplained-failure:2"],
    ),
    Labelled(
        claim="a later start explains it",
        events=_RUN + "start\nexit start=1 code=1\n",
        claims=_EXPLAINED,
        says=["V24 pass"],
    ),
    Labelled(
        claim="a record that fails explains a code and not a signal",
        events=_POISON + "exit start=1 code=1\nstart\nexit start=2 signal=11\n",
        claims=_EXPLAINED,
        says=["V24 fail unexplained-failure:2"],
    ),
    Labelled(
        claim="with dead letters a record that fails explains nothing",
        events=_POISON + "exit start=1 code=1\n",
        claims=_EXPLAINED,
        header=_DEAD,
        says=["V24 fail unexplained-failure:1"],
    ),
    Labelled(
        claim="after a giveup nothing is asked",
        events=_RUN + 'giveup why="silence"\nexit start=1 signal=9\n',
        claims=_EXPLAINED,
        says=["V24 pass"],
    ),
    Labelled(claim="without a start V24 is vacuous", events=_OFFERS, claims=_EXPLAINED, says=["V24 vacuous"]),
)

OVERALL = (
    Labelled(
        claim="an unknown that is not named as decisive does not count",
        events=_RUN + _A + _B + _C + _TABLE,
        header={"decisive": ["V8"]},
        says=["V16 unknown", "V8 pass", "overall pass"],
    ),
    Labelled(
        claim="a decisive invariant that is not claimed is vacuous",
        events=_RUN + _A + _B + _C + _END,
        header={"decisive": ["V9"]},
        says=["overall vacuous"],
    ),
)


@each(ORDER)
def test_the_order_of_the_source_and_of_keys(case: Labelled) -> None:
    refuse_difference(case)


@each(FENCING)
def test_effects_of_earlier_starts(case: Labelled) -> None:
    refuse_difference(case)


@each(LIVENESS)
def test_jobs_that_do_not_come_to_their_end(case: Labelled) -> None:
    refuse_difference(case)


@each(ERRORS)
def test_records_that_fail(case: Labelled) -> None:
    refuse_difference(case)


@each(EVIDENCE)
def test_evidence_of_faults(case: Labelled) -> None:
    refuse_difference(case)


@each(FAILURES)
def test_exits_that_nothing_explains(case: Labelled) -> None:
    refuse_difference(case)


@each(OVERALL)
def test_the_overall_verdict(case: Labelled) -> None:
    refuse_difference(case)
