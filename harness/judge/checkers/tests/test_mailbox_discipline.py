"""V21: one thread, inside the attempt's life, one record's outputs at a time."""

from __future__ import annotations

import pytest

from harness.history.verdict import Outcome
from harness.judge.checkers.tests.small_histories import (
    Json,
    answered,
    called,
    ended,
    event,
    found,
    history,
    left,
    owm,
    settled,
    snap,
    start,
    took,
    verdict,
    wm,
)
from tools.cases import each

ACTS = [called("a"), answered("a"), left("a"), owm(5), snap(1, 0)]


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act["k"])
def test_each_kind_belongs_to_the_attempts_thread(act: Json) -> None:
    own = called("b", thread="mailbox")

    assert found("V21", history(start(), own, {**act, "thread": "pool"})) == [("foreign-thread", (2, 3))]
    assert found("V21", history(start(), own, {**act, "thread": "mailbox"})) == []


def test_an_event_without_a_thread_and_kinds_of_the_task_around_it_are_free() -> None:
    parts = [took("a", 0, thread="source"), called("a", thread="mailbox"), answered("a")]

    assert found("V21", history(start(thread="main"), parts, event("failed", error="", thread="x"))) == []


def test_attempts_may_run_on_threads_of_their_own() -> None:
    parts = [called("a", thread="one"), start(a=2), called("a", a=2, thread="two"), called("b", thread="one")]

    assert found("V21", history(start(), parts)) == []


def test_every_foreign_act_is_told() -> None:
    parts = [called("a", thread="one"), called("b", thread="two"), called("c", thread="one")]

    lines = history(start(), parts, owm(5, thread="two"), snap(3, 0, thread="three"))
    told = verdict("V21", lines).anomalies

    assert [(anomaly.id, anomaly.w, anomaly.c) for anomaly in told] == [
        ("b", None, None),
        (None, 5, None),
        (None, None, 3),
    ]


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act["k"])
def test_nothing_is_done_before_the_start_or_after_the_close(act: Json) -> None:
    """Such a history is not malformed."""
    early = history(act, start())
    late = history(start(), event("close"), act)

    assert found("V21", early) == [("outside-life", (1, 2))]
    assert found("V21", late) == [("outside-life", (2, 3))]
    assert found("V21", history(start(), act, event("close"), event("kill"))) == []


def test_a_zombies_acts_are_inside_its_life() -> None:
    assert found("V21", history(start(), start(a=2), settled("a"), event("close"))) == []


def outs(*told: tuple[str, int]) -> list[Json]:
    return [left(id_, j=j) for id_, j in told]


@each(
    ("told", "split"),
    [
        ([("a", 0), ("b", 0), ("a", 1)], ["a"]),
        ([("a", 0), ("a", 1), ("b", 0)], []),
        ([("a", 0), ("b", 0), ("a", 1), ("b", 1)], ["a", "b"]),
        ([("a", 1), ("b", 0), ("a", 0)], []),
        ([("a", 1), ("b", 0), ("a", 0), ("a", 1)], []),
        ([("a", 0), ("b", 0), ("a", 0)], []),
        ([("a", 0), ("b", 0), ("a", 1), ("c", 0), ("a", 2)], ["a"]),
    ],
)
def test_the_record_that_is_split_is_told_once(told: list[tuple[str, int]], split: list[str]) -> None:
    anomalies = verdict("V21", history(start(), outs(*told))).anomalies

    assert [(anomaly.kind, anomaly.id) for anomaly in anomalies] == [("interleaved", id_) for id_ in split]


def test_a_watermark_in_between_and_another_attempts_output_split_nothing() -> None:
    parts = [left("a"), owm(5), start(a=2), left("b", a=2), left("a", j=1)]

    assert found("V21", history(start(), wm(5, 0), parts)) == []


def test_without_any_of_its_kinds_it_is_vacuous() -> None:
    assert verdict("V21", history(start(), took("a", 0), ended())).outcome is Outcome.VACUOUS
