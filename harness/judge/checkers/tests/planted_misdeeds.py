"""Corruptions of `planted_defects` inside attempts: of calls, outcomes, nonces, times, threads and errors."""

from __future__ import annotations

from itertools import pairwise

from harness.judge.checkers.tests.planted_breaches import PLAIN, bounded, later, moved
from harness.judge.checkers.tests.planted_defects import Json, one, places, plants
from harness.system.choices import Choices

__all__ = ["answers_of"]


def answers_of(lines: list[Json], r: str) -> list[int]:
    """Final ones."""
    return [i for i in places(lines, "res") if lines[i]["r"] == r and lines[i]["final"]]


def call_of(lines: list[Json], res: int) -> int:
    """Where the call of an answer stands."""
    same = [
        i for i in places(lines[:res], "call")
        if all(lines[i][name] == lines[res][name] for name in ("s", "a", "id", "try"))
    ]  # fmt: skip
    return same[-1]


@plants("V14", "over-admitted", sink="rollback", **PLAIN)
def a_record_is_taken_while_another_waits(lines: list[Json], choices: Choices) -> list[Json] | None:
    calls = []
    for taken, after in pairwise(i for i in places(lines, "in") if lines[i]["s"] == 0):
        own = [i for i in places(lines, "call") if lines[i]["id"] == lines[taken]["id"] and i < after]
        answers = [i for i in places(lines, "res") if lines[i]["id"] == lines[taken]["id"] and i < after]
        calls += [(own[0], after)] if own and not answers else []
    place = one(calls, choices)
    return None if place is None else moved(lines, place[0], place[1] + 1)


@plants("V15", "concurrent-call", sink="rollback", **PLAIN)
def a_record_is_called_twice_at_once(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "call"), choices)
    if place is None:
        return None
    return [*lines[: place + 1], {**lines[place], "try": 2}, *lines[place + 1 :]]


@plants("V15", "tries", sink="rollback", **PLAIN)
def a_try_is_left_out(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "call"), choices)
    if place is None:
        return None
    lines[place] = {**lines[place], "try": 2}
    return lines


@plants("V15", "early-timeout", sink="rollback", calm=True)
def a_record_times_out_at_once(lines: list[Json], choices: Choices) -> list[Json] | None:
    if one(answers_of(lines, "timeout"), choices) is None:
        return None
    lines[0]["operator"]["timeout_ms"] = 1_000_000
    return lines


@plants("V15", "late-timeout", sink="rollback", **PLAIN)
def an_outcome_comes_too_late(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(answers_of(lines, "ok"), choices)
    return None if place is None else bounded(later(lines, place), timeout_slack=1000)


@plants("V15", "out-before-outcome", sink="rollback", **PLAIN)
def a_result_leaves_before_its_outcome(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "out"), choices)
    if place is None:
        return None
    settled = [i for i in answers_of(lines, "ok") if lines[i]["id"] == lines[place]["id"]]
    return moved(lines, place, settled[0])


@plants("V15", "unknown-record", sink="rollback", **PLAIN)
def nobody_knows_who_is_called(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "call"), choices)
    if place is None:
        return None
    lines[place] = {**lines[place], "id": "ghost"}
    return lines


@plants("V15", "unknown-call", sink="rollback", **PLAIN)
def an_answer_is_to_a_try_that_was_not_made(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(answers_of(lines, "ok"), choices)
    if place is None:
        return None
    lines[place] = {**lines[place], "try": 3}
    return lines


@plants("V16", "stuck", sink="rollback", **PLAIN)
def a_run_stands_still_till_somebody_gives_up(lines: list[Json], choices: Choices) -> list[Json] | None:
    calm = [event for event in lines if event.get("k") != "fault"]
    place = one(places(calm, "out"), choices)
    if place is None:
        return None
    return [*calm[:place], {"k": "giveup", "why": "nothing moves", "t": calm[-1]["t"]}]


@plants("V18", "checkpoint-gap", sink="rollback", **PLAIN)
def no_checkpoint_completes_for_long(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "out"), choices)
    return None if place is None else bounded(later(lines, place), checkpoint_gap=5000)


@plants("V19", "foreign-response", sink="rollback", **PLAIN)
def two_answers_are_mixed_up(lines: list[Json], choices: Choices) -> list[Json] | None:
    answers = [i for i in answers_of(lines, "ok") if lines[i]["s"] == 0]
    if (pair := one(list(pairwise(answers)), choices)) is None:
        return None
    for nonce, res in enumerate(pair):
        lines[call_of(lines, res)]["nonce"] = nonce
        lines[res]["nonce"] = 1 - nonce
    return lines


@plants("V19", "nonce-reused", sink="rollback", **PLAIN)
def two_calls_send_one_nonce(lines: list[Json], choices: Choices) -> list[Json] | None:
    if (pair := one(list(pairwise(places(lines, "call"))), choices)) is None:
        return None
    for call in pair:
        lines[call]["nonce"] = "again"
    return lines


@plants("V20", "double-routed", sink="rollback", calm=True)
def a_dead_letter_fails_its_attempt_too(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "dead"), choices)
    if place is None:
        return None
    told = {**lines[place], "k": "failed", "error": "boom"}
    return [*lines[: place + 1], told, *lines[place + 1 :]]


@plants("V21", "foreign-thread", sink="rollback", **PLAIN)
def another_thread_emits(lines: list[Json], choices: Choices) -> list[Json] | None:
    outs = [i for i in places(lines, "out") if lines[i]["s"] == 0]
    if len(outs) < 2:
        return None
    for place in outs:
        lines[place]["thread"] = "task"
    lines[outs[choices.index(len(outs))]]["thread"] = "callback"
    return lines


@plants("V21", "outside-life", sink="rollback", **PLAIN)
def a_result_leaves_before_its_attempt_has_started(lines: list[Json], choices: Choices) -> list[Json] | None:
    place = one(places(lines, "out"), choices)
    if place is None:
        return None
    start = next(i for i in places(lines, "start") if lines[i]["s"] == lines[place]["s"])
    return moved(lines, place, start)
