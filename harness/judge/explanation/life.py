"""Explains anomalies of an attempt's life: V16, V20, V21 and V24.

Invariant: an explanation says that an attempt did not do something only if all its events of that kind were read.
"""

from __future__ import annotations

from harness.history.values import shown
from harness.history.verdict import Explanation
from harness.judge.explanation.contradiction import Contradiction
from harness.judge.explanation.event_summary import Json

_ACTS = ("call", "res", "out", "owm", "snap")


def stuck(x: Contradiction) -> Explanation:
    """V16: the run makes no progress although no fault is active."""
    gave_up = x.witness("giveup")
    came = next((event for event in x.cited if event is not gave_up), None)
    if came is not None and gave_up is not None:
        what = f"watermark {shown(x.anomaly.w)}" if x.anomaly.id is None else f"record {shown(x.anomaly.id)}"
        x.then(f"{x.let(came)} brought {what} into the operator.")
        story = [] if x.anomaly.id is None else x.story(x.anomaly.id, "call", "res", "out", "dead")
        since = [e for e in story if came["n"] < e["n"] < gave_up["n"]]
        if since:
            x.then(f"After that, only {x.let_all(since[-4:])} concerned it.")
        elif x.anomaly.id is not None and x.knows_all("id", x.anomaly.id):
            x.then("After that it had no call, no outcome and no result.")
        x.then(
            f"It was still unresolved at {x.let(gave_up)}, {(gave_up['t'] - came['t']) / 1000:.3f} ms later."
        )
    _faults_over(x)
    recover_ms = x.bound("recover")
    when = f"{recover_ms} ms after the last fault" if recover_ms else "with no fault active"
    return x.however(f"{when} the operator makes progress until its end")


def _faults_over(x: Contradiction) -> None:
    gave_up = x.witness("giveup")
    spans = x.gathered.skeleton.faults
    ends = [span.end for span in spans if span.end is not None]
    if gave_up is None or len(ends) < len(spans):
        return
    if not ends:
        x.then("No fault was ever active.")
        return
    last = x.event(max(ends, key=lambda end: end.n))
    if last is not None and last["n"] < gave_up["n"]:
        since = (gave_up["t"] - last["t"]) / 1000
        x.then(f"The last fault had ended at {x.let(last)}, {since:.3f} ms before.")


def swallowed(x: Contradiction) -> Explanation:
    """V20: a failure is not reported."""
    failure = x.witness("res")
    if failure is not None:
        how = "failed for good" if failure["r"] == "fail" else "timed out with an error"
        x.then(f"By {x.let(failure)} record {shown(failure['id'])} {how} in attempt {failure['a']}.")
        if x.knows_all("id", failure["id"]):
            x.then(f"After it, attempt {failure['a']} wrote no dead letter of the record.")
        snap = x.gathered.skeleton.completed_snap_after(x.s, failure["a"], failure["n"])
        ends = x.event(x.gathered.skeleton.end_of(x.s, failure["a"]))
        if snap is not None:
            x.then(
                f"The attempt then took the snap of checkpoint {snap.c}, which was completed (event {snap.n})."
            )
        elif ends is not None:
            x.then(f"Attempt {failure['a']} went on without reporting a failure, up to {x.let(ends)}.")
        outs = [e for e in x.story(failure["id"], "out") if e["a"] == failure["a"] and e["n"] > failure["n"]]
        if outs:
            x.then(f"Instead a result left: {x.let(outs[0])}.")
    return x.however(
        "a failure fails its attempt or becomes a dead letter before a checkpoint completes without the record"
    )


def double_routed(x: Contradiction) -> Explanation:
    """V20: a failure is reported in both ways."""
    dead, failed = x.witness("dead"), x.witness("failed")
    if dead is not None and failed is not None:
        x.then(f"{x.let(dead)} settled record {shown(x.anomaly.id)} as a dead letter.")
        x.then(f"{x.let(failed)} failed the same attempt because of the same record.")
    return x.however("a failed record either becomes a dead letter or fails its task, not both")


def foreign_thread(x: Contradiction) -> Explanation:
    """V21: an attempt acts on a second thread."""
    acts = x.witnesses(*_ACTS)
    if len(acts) > 1:
        for act in (acts[0], acts[-1]):
            x.then(f"{x.let(act)} comes from thread {shown(act.get('thread'))}.")
        x.then(f"Both are of attempt {acts[0]['a']} of subtask {x.s}.")
    return x.however("an attempt acts on one thread only")


def outside_life(x: Contradiction) -> Explanation:
    """V21: an attempt acts before its start or after its close."""
    act, bound = x.witness(*_ACTS), x.witness("start", "close")
    if act is not None and bound is not None:
        side = "before" if act["n"] < bound["n"] else "after"
        x.then(f"{x.let(act)} comes {side} {x.let(bound)}, of the same attempt.")
    elif act is not None:
        ends = x.event(x.gathered.skeleton.end_of(x.s, act["a"]))
        if ends is not None and ends["k"] == "close":
            x.then(f"{x.let(act)} comes after {x.let(ends)}, of the same attempt.")
    return x.however("an attempt acts only between its start and its close")


def interleaved(x: Contradiction) -> Explanation:
    """V21: another record's result leaves between two results of one record."""
    outs = x.witnesses("out")
    mine = [event for event in outs if event["id"] == x.anomaly.id]
    others = [event for event in outs if event["id"] != x.anomaly.id]
    if len(mine) > 1 and others:
        x.then(f"{x.let(mine[0])} and {x.let(mine[-1])} are results of one record.")
        x.then(f"{x.let(others[0])}, another record's, left between them.")
    return x.however("no other result leaves between the results of one record")


def unexplained_failure(x: Contradiction) -> Explanation:
    """V24: an attempt fails, is killed or is restarted, and nothing explains it."""
    failure = x.witness("failed", "kill") or x.witnesses("start")[-1]
    call = x.witness("res")
    if call is not None:
        x.then(
            f"By {x.let(call)} the call of record {shown(call['id'])} failed, and {x.let(failure)} followed."
        )
        _unnamed(x, call)
        x.then(f"No fault that was on from the record's first call to {x.let(call)} can cause a `res`.")
    elif failure["k"] == "start":
        before = x.witnesses("start")[0]
        x.then(
            f"{x.let(failure)} followed {x.let(before)}, whose attempt had not ended, failed or been killed."
        )
    _unnamed(x, failure)
    x.then(f"No fault that was on at {x.let(failure)} can cause a `{failure['k']}`.")
    return x.however("an attempt fails, is killed or is restarted only for a cause that the history names")


def _unnamed(x: Contradiction, event: Json) -> None:
    if "by" in event:
        x.then(f"{x.let(event)} names {shown(event['by'])} as its cause, which was no fault of that time.")
    else:
        x.then(f"{x.let(event)} names no cause.")
