"""Explains anomalies of retries, a part of V15. Times come from the events, the strategy from the header."""

from __future__ import annotations

from harness.history.values import shown
from harness.history.verdict import Explanation
from harness.judge.explanation.contradiction import Contradiction
from harness.judge.explanation.glimpse import Json

_CALLS_MAX = 8


def retry_missing(x: Contradiction) -> Explanation:
    """V15: after an outcome that is not final, no call follows in time."""
    outcome = _outcome(x)
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
    outcome = _outcome(x)
    if outcome is not None:
        calls = [
            e for e in x.story(outcome["id"], "call") if e["a"] == outcome["a"] and e["n"] < outcome["n"]
        ]
        dead = x.witness("dead")
        if x.knows_all("id", outcome["id"]):
            x.then(f"Calls of the record in its attempt before {x.let(outcome)}: {len(calls)}.")
        x.then(f"{x.let_all(calls[:_CALLS_MAX])} came before {x.let(outcome)}.")
        if dead is not None:
            x.then(f"{x.let(dead)} gave the record up.")
    return x.however(f"an outcome that is retried is final only after {x.operator('max_tries', 1)} calls")


def retried_anyway(x: Contradiction) -> Explanation:
    """V15: a record is called again after an outcome that is not retried."""
    _told_apart(x)
    outcome = _outcome(x)
    own = outcome is not None and "retry" in outcome
    return x.however("its own `retry` says no" if own else f"what is retried is {_retried(x)}")


def _outcome(x: Contradiction) -> Json | None:
    return x.witness("res")


def _told_apart(x: Contradiction) -> None:
    """Say when the outcome came, and when the call that followed it."""
    outcome, calls = _outcome(x), x.witnesses("call")
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


def _retried(x: Contradiction) -> str:
    retry = x.operator("retry") or {}
    return ", ".join(map(shown, retry.get("on", ["fail"]))) or "nothing"
