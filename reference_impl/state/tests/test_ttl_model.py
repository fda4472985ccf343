"""States whose values have a life against a model, through any steps in virtual time: S11-S17."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_impl.state.state_descriptor import StateTtlConfig, UpdateType
from reference_impl.state.tests.naive_ttl import NaiveTtlState
from reference_impl.state.tests.ttl_rig import (
    DESCRIPTORS,
    NEVER,
    ON_READ,
    ON_WRITE,
    RETURN,
    STRATEGIES,
    Subtask,
    ttl,
)

Step = tuple[str, str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "read", "read", "wait", "wait", "clear", "restart"]),
        st.sampled_from("kl"),
        st.integers(0, 130),
    ),
    max_size=25,
)
KINDS = pytest.mark.parametrize("kind", DESCRIPTORS)
UPDATES = st.sampled_from([ON_WRITE, ON_READ])


def lies_within(part: list[Any], whole: list[Any]) -> bool:
    """Whether `part` is what is left of `whole` after some of it has gone."""
    rest = iter(whole)
    return all(any(one == other for other in rest) for one in part)


def shown(subtask: Subtask, key: str) -> list[Any]:
    """All that the state shows for `key`, as the model says it."""
    subtask.select(key)
    match subtask.descriptor.kind:
        case "map":
            return list(subtask.state.entries())
        case "list":
            return [(None, element) for element in subtask.state.get()]
        case "value":
            found = subtask.state.value()
        case _:
            found = subtask.state.get()
    return [] if found is None else [(None, found)]


def write(subtask: Subtask, key: str, number: int) -> None:
    """One more value; a map's entry is put anew, at the end."""
    subtask.select(key)
    match subtask.descriptor.kind:
        case "map":
            subtask.state.remove(number % 3)
            subtask.state.put(number % 3, number)
        case "value":
            subtask.state.update(number)
        case _:
            subtask.state.add(number)


def change(subtask: Subtask, models: list[NaiveTtlState], step: Step) -> None:
    """A step that shows nothing, to the state and to each model of it."""
    what, key, number = step
    match what:
        case "write":
            write(subtask, key, number)
            for model in models:
                model.write(key, number, subtask.now_ms)
        case "wait":
            subtask.now_ms += number
        case "clear":
            subtask.select(key)
            subtask.state.clear()
            for model in models:
                model.entries.pop(key, None)
        case "restart":
            subtask.restart(models[0].config)
            if models[0].config.cleanup_strategies.full_snapshot:
                for model in models:
                    model.clean(subtask.now_ms)


@KINDS
@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=10)
@given(update=UPDATES, steps=STEPS)
def test_whoever_cleans_up_the_expired_is_never_shown_s11_s12_s13_s14_s15_s16(
    kind: str, update: UpdateType, strategy: str, steps: list[Step]
) -> None:
    config = ttl(100, update=update, visibility=NEVER, cleanup=STRATEGIES[strategy])
    subtask, model = Subtask(DESCRIPTORS[kind], config), NaiveTtlState(kind, config)

    for step in steps:
        if step[0] == "read":
            assert shown(subtask, step[1]) == model.read(step[1], subtask.now_ms)
        else:
            change(subtask, [model], step)


@KINDS
@pytest.mark.parametrize("strategy", ["by hand", "full snapshot"])
@settings(max_examples=10)
@given(update=UPDATES, steps=STEPS)
def test_without_a_clean_up_in_the_background_what_is_shown_once_is_known_s13(
    kind: str, update: UpdateType, strategy: str, steps: list[Step]
) -> None:
    config = ttl(100, update=update, visibility=RETURN, cleanup=STRATEGIES[strategy])
    subtask, model = Subtask(DESCRIPTORS[kind], config), NaiveTtlState(kind, config)

    for step in steps:
        if step[0] == "read":
            assert shown(subtask, step[1]) == model.read(step[1], subtask.now_ms)
        else:
            change(subtask, [model], step)


@pytest.mark.parametrize("kind", ["value", "list", "map"])
@pytest.mark.parametrize("strategy", ["incremental", "every record"])
@settings(max_examples=10)
@given(update=UPDATES, steps=STEPS)
def test_with_one_the_living_is_shown_and_at_most_what_is_not_cleaned_up_yet_s13_s16(
    kind: str, update: UpdateType, strategy: str, steps: list[Step]
) -> None:
    config = ttl(100, update=update, visibility=RETURN, cleanup=STRATEGIES[strategy])
    subtask = Subtask(DESCRIPTORS[kind], config)
    least = NaiveTtlState(kind, replace(config, state_visibility=NEVER))
    most = NaiveTtlState(kind, config)

    for step in steps:
        if step[0] == "read":
            found = shown(subtask, step[1])
            assert lies_within(least.read(step[1], subtask.now_ms), found)
            assert lies_within(found, most.read(step[1], subtask.now_ms))
        else:
            change(subtask, [most, least], step)


@KINDS
@settings(max_examples=15)
@given(
    update=UPDATES,
    steps=STEPS,
    lives=st.lists(st.sampled_from([50, 100, 200, 10**6]), min_size=1, max_size=4),
)
def test_a_life_that_changes_at_restarts_counts_for_all_stamps_s17(
    kind: str, update: UpdateType, steps: list[Step], lives: list[int]
) -> None:
    config: StateTtlConfig = ttl(100, update=update)
    subtask, model = Subtask(DESCRIPTORS[kind], config), NaiveTtlState(kind, config)
    for number, step in enumerate(steps):
        if step[0] == "read":
            assert shown(subtask, step[1]) == model.read(step[1], subtask.now_ms)
            continue
        if step[0] == "restart":
            model.config = replace(config, time_to_live_ms=lives[number % len(lives)])
        change(subtask, [model], step)
