"""Explains anomalies of calls and outcomes: V14, V15 and V19. Times come from the events, limits from the header."""

from __future__ import annotations

from harness.history.values import shown
from harness.history.verdict import Explanation
from harness.judge.explanation.contradiction import Contradiction
from harness.judge.explanation.event_summary import Json

_EVENTS_MAX = 8


def over_capacity(x: Contradiction) -> Explanation:
    """V14: more records in flight than the capacity allows."""
    calls = x.witnesses("call")
    last = calls[-1] if calls else None
    if last is not None:
        others = [event for event in x.cited if event is not last]
        if others:
            more = len(others) - _EVENTS_MAX
            told = x.let_all(others[:_EVENTS_MAX]) + (f" and {more} more" if more > 0 else "")
            x.then(f"At {x.let(last)} these calls were still unresolved: {told}.")
        x.then_said()
    return x.however(f"no more than {x.operator('capacity')} are in flight at once")


def over_admitted(x: Contradiction) -> Explanation:
    """V14: a record is taken in while another one waits for a slot."""
    taken = x.witnesses("in")
    if len(taken) > 1:
        x.then(f"{x.let(taken[0])} had come in, and was neither called nor had an outcome.")
        x.then(f"{x.let(taken[-1])} was taken from the source nevertheless.")
    return x.however("at most one record waits for a slot")


def two_outcomes(x: Contradiction) -> Explanation:
    """V15: two final outcomes of a record in one attempt."""
    outcomes = x.witnesses("res")
    if len(outcomes) > 1:
        x.then(
            f"{x.let(outcomes[0])} was final for record {shown(x.anomaly.id)} in attempt {outcomes[0]['a']}."
        )
        x.then(f"{x.let(outcomes[-1])} is final too, in the same attempt.")
    return x.however("a record has one final outcome in an attempt")


def call_after_final(x: Contradiction) -> Explanation:
    """V15: a call after the record's final outcome."""
    outcome, call = x.witness("res"), x.witness("call")
    if outcome is not None and call is not None:
        x.then(f"{x.let(outcome)} was final.")
        x.then(f"{x.let(call)} comes after it, in the same attempt.")
    return x.however("no call of a record follows its final outcome")


def concurrent_call(x: Contradiction) -> Explanation:
    """V15: two calls of a record at the same time."""
    calls = x.witnesses("call")
    if len(calls) > 1:
        x.then(f"{x.let(calls[0])} had no outcome yet at {x.let(calls[-1])}.")
        x.then(f"{x.let(calls[-1])} calls the same record in the same attempt.")
    return x.however("a record has at most one running call")


def tries(x: Contradiction) -> Explanation:
    """V15: a try number out of sequence or above the maximum."""
    calls = x.witnesses("call")
    if len(calls) > 1:
        x.then(f"The call before it is {x.let(calls[0])}, try {calls[0]['try']}.")
    if calls:
        last = calls[-1]
        first = "" if len(calls) > 1 else ", the first call of the record in this attempt"
        x.then(f"{x.let(last)} is try {last['try']}{first}.")
    return x.however(f"tries count up from 1, and the greatest allowed is {x.operator('max_tries', 1)}")


def early_timeout(x: Contradiction) -> Explanation:
    """V15: a timeout before its time, or without a timeout configured."""
    call, outcome = x.witness("call"), x.witness("res")
    if outcome is None:
        return x.however("a timeout does not come before the operator's timeout")
    if call is not None:
        waited = (outcome["t"] - call["t"]) / 1000
        x.then(f"{x.let(outcome)} comes {waited:.3f} ms after the first call, {x.let(call)}.")
    timeout = x.operator("timeout_ms", 0)
    if not timeout:
        x.then(f"{x.let(outcome)} is a timeout.")
        return x.however("the operator has no timeout")
    return x.however(f"the timeout is {timeout} ms (with a tolerance of 1 ms)")


def late_timeout(x: Contradiction) -> Explanation:
    """V15: no final outcome within the timeout and its slack."""
    call, outcome = x.witness("call"), x.witness("res")
    if call is not None:
        if outcome is not None:
            waited = (outcome["t"] - call["t"]) / 1000
            x.then(f"The final outcome, {x.let(outcome)}, comes {waited:.3f} ms after {x.let(call)}.")
        else:
            x.then(f"No final outcome ever followed {x.let(call)} in attempt {call['a']}.")
        x.then("The attempt ran on past the limit without reporting a failure, and no fault stalled it.")
    limit = int(x.operator("timeout_ms", 0)) + int(x.bound("timeout_slack"))
    return x.however(
        f"a record has its final outcome within {limit} ms (timeout and slack) of its first call"
    )


def out_before_outcome(x: Contradiction) -> Explanation:
    """V15: a result leaves before the record has an outcome."""
    out = x.witness("out")
    if out is not None:
        outcomes = [e for e in x.story(out["id"], "res", "dead") if e["a"] == out["a"]]
        final = next((e for e in outcomes if e["k"] == "dead" or e.get("final") is True), None)
        if final is not None:
            x.then(f"The record's outcome in attempt {out['a']}, {x.let(final)}, comes after {x.let(out)}.")
        elif x.knows_all("id", out["id"]):
            x.then(f"No outcome of record {shown(out['id'])} ever came in attempt {out['a']}.")
    return x.however("a result leaves only after its record has an outcome")


def unknown_record(x: Contradiction) -> Explanation:
    """V15: a call or outcome of a record that the attempt does not hold."""
    act = x.witness("call", "res")
    if act is not None:
        own = [e for e in x.story(act["id"], "in") if e["a"] == act["a"]]
        if own:
            x.then(f"Attempt {act['a']} took the record in only at {x.let(own[0])}, after {x.let(act)}.")
        else:
            x.then(f"Attempt {act['a']} had neither taken in nor restored record {shown(act['id'])}.")
            elsewhere = [e for e in x.story(act["id"], "in") if e["n"] < act["n"]]
            if elsewhere:
                x.then(f"It was attempt {elsewhere[0]['a']} that had taken it in: {x.let(elsewhere[0])}.")
    return x.however("an attempt calls and settles only records that it took in or restored")


def unknown_call(x: Contradiction) -> Explanation:
    """V15: an outcome of a try that was not called."""
    outcome = x.witness("res")
    if outcome is not None:
        calls = [e for e in x.story(outcome["id"], "call") if e["a"] == outcome["a"]]
        before = [event for event in calls if event["n"] < outcome["n"]]
        if before:
            x.then(f"By then attempt {outcome['a']} had called {x.let_all(before[:_EVENTS_MAX])}.")
        elif x.knows_all("id", outcome["id"]):
            x.then(f"By then attempt {outcome['a']} had not called record {shown(outcome['id'])} at all.")
        x.then(f"{x.let(outcome)} is of try {outcome['try']}.")
    return x.however("an outcome other than a timeout belongs to a try that was called")


def foreign_response(x: Contradiction) -> Explanation:
    """V19: an answer with the nonce of another call."""
    outcome = x.witness("res")
    if outcome is not None:
        x.then(f"{x.let(outcome)} carries the nonce {shown(outcome.get('nonce'))}.")
        for call in x.witnesses("call"):
            mine = call["id"] == outcome["id"] and call["a"] == outcome["a"] and call["try"] == outcome["try"]
            whose = "the call that it answers" if mine else "another call"
            x.then(f"{x.let(call)}, {whose}, had sent {shown(call.get('nonce'))}.")
    return x.however("an answer carries the nonce of its own call")


def nonce_reused(x: Contradiction) -> Explanation:
    """V19: two calls with the same nonce."""
    calls = x.witnesses("call")
    if len(calls) > 1:
        x.then(f"{x.let(calls[0])} sent the nonce {shown(calls[0].get('nonce'))}.")
        x.then(f"{x.let(calls[-1])}, a later call, sent the same.")
    return x.however("every call has a nonce of its own, so that answers can be told apart")


def retry_missing(x: Contradiction) -> Explanation:
    """V15: after an outcome that is not final, no call follows in time."""
    outcome = x.witness("res")
    if outcome is not None:
        x.then(f"{x.let(outcome)} is not final, so the record is to be called again.")
        ended = x.witness("ended")
        follower = next((e for e in x.cited if e["n"] > outcome["n"] and e["k"] != "ended"), None)
        if follower is not None:
            x.then(f"{x.let(follower)} followed {x.let(outcome)}, {_after(outcome, follower)}.")
        if ended is not None:
            x.then(f"Attempt {outcome['a']} ended at {x.let(ended)}, before any call followed.")
        elif follower is None and x.knows_all("id", outcome["id"]):
            x.then(f"No call, final outcome or dead letter of it followed in attempt {outcome['a']}.")
    return x.however(f"a record is called again after its wait ({_strategy(x)}), before its attempt ends")


def retry_early(x: Contradiction) -> Explanation:
    """V15: a record is called again before its wait is over."""
    _told_apart(x)
    x.then_said()
    return x.however(f"the wait before a further call is that of the strategy ({_strategy(x)})")


def retry_late(x: Contradiction) -> Explanation:
    """V15: a record is called again too late."""
    _told_apart(x)
    x.then("The attempt ran on past the limit without a failure, and no fault was active meanwhile.")
    return x.however(f"a record is called again after its wait ({_strategy(x)}), with the slack at most")


def gave_up_early(x: Contradiction) -> Explanation:
    """V15: a record is given up before its tries are used up."""
    outcome = x.witness("res")
    if outcome is not None:
        calls = [
            e for e in x.story(outcome["id"], "call") if e["a"] == outcome["a"] and e["n"] < outcome["n"]
        ]
        dead = x.witness("dead")
        if x.knows_all("id", outcome["id"]):
            x.then(f"Calls of the record in its attempt before {x.let(outcome)}: {len(calls)}.")
        x.then(f"{x.let_all(calls[:_EVENTS_MAX])} came before {x.let(outcome)}.")
        if dead is not None:
            x.then(f"{x.let(dead)} gave the record up.")
    return x.however(f"an outcome that is retried is final only after {x.operator('max_tries', 1)} calls")


def retried_anyway(x: Contradiction) -> Explanation:
    """V15: a record is called again after an outcome that is not retried."""
    _told_apart(x)
    outcome = x.witness("res")
    own = outcome is not None and "retry" in outcome
    retried = ", ".join(map(shown, (x.operator("retry") or {}).get("on", ["fail"]))) or "nothing"
    return x.however("its own `retry` says no" if own else f"what is retried is {retried}")


def _told_apart(x: Contradiction) -> None:
    """Say when the outcome came, and when the call that followed it."""
    outcome, calls = x.witness("res"), x.witnesses("call")
    if outcome is not None and calls:
        x.then(f"{x.let(calls[-1])} followed {x.let(outcome)}, {_after(outcome, calls[-1])}.")


def _after(outcome: Json, event: Json) -> str:
    return f"{(event['t'] - outcome['t']) / 1000:.3f} ms after it"


def _strategy(x: Contradiction) -> str:
    retry = x.operator("retry") or {}
    told = f"{retry.get('backoff', 'fixed')} backoff, {retry.get('initial_ms', 0)} ms"
    if "multiplier" in retry:
        told += f" times {retry['multiplier']}"
    if "max_ms" in retry:
        told += f", {retry['max_ms']} ms at most"
    return f"{told}, slack {retry.get('slack_ms', 0)} ms"
