"""The hub: one clock, one actor at a time, and an end in any case."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.database.simulated.hub import Actor, Hub
from harness.system.choices import Draw


def hub(seed: int = 1, *, limit_ms: int = 10_000, steps_max: int = 10_000) -> Hub:
    return Hub(Draw(seed, "test"), limit_ms=limit_ms, steps_max=steps_max)


def nobody_cares(actor: Actor) -> None:
    del actor


def start(on: Hub, run: Callable[[Actor], None], *, name: str = "one", at_ms: int = 0) -> Actor:
    return on.spawn(run, name=name, ended=nobody_cares, at_ms=at_ms)


def test_actors_go_on_in_the_order_of_their_instants() -> None:
    one_hub, seen = hub(), list[tuple[int, str]]()

    def waits(*instants: int) -> Callable[[Actor], None]:
        def run(actor: Actor) -> None:
            for instant in instants:
                actor.sleep_until(instant)
                seen.append((one_hub.now_ms, actor.name))

        return run

    start(one_hub, waits(5, 20), name="a")
    start(one_hub, waits(10, 15), name="b")

    assert one_hub.run() is None
    assert seen == [(5, "a"), (10, "b"), (15, "b"), (20, "a")]


def order_at_one_instant(seed: int) -> str:
    one_hub, seen = hub(seed), list[str]()
    for name in "abcdef":
        start(one_hub, lambda actor: seen.append(actor.name), name=name, at_ms=7)
    one_hub.run()
    return "".join(seen)


def test_ties_are_drawn_from_the_seed() -> None:
    assert order_at_one_instant(3) == order_at_one_instant(3)
    assert len({order_at_one_instant(seed) for seed in range(8)}) > 1


def test_who_is_woken_goes_on_at_once() -> None:
    one_hub, woke = hub(), list[int]()

    def run(actor: Actor) -> None:
        actor.wait(None)
        woke.append(one_hub.now_ms)

    sleeper = start(one_hub, run)
    one_hub.at(42, sleeper.wake)

    assert one_hub.run() is None
    assert woke == [42]


def test_when_nobody_is_due_the_run_says_who_waits() -> None:
    one_hub = hub()
    start(one_hub, lambda actor: actor.wait(None), name="subtask 3")

    why = one_hub.run()

    assert why is not None
    assert "stuck" in why
    assert "subtask 3" in why


def test_a_run_without_an_end_is_ended() -> None:
    one_hub = hub(steps_max=50)

    def run(actor: Actor) -> None:
        while True:
            actor.wait(one_hub.now_ms)

    start(one_hub, run)
    start(one_hub, run, name="two")

    assert "50 steps" in (one_hub.run() or "")


def test_the_budget_is_of_virtual_time() -> None:
    one_hub = hub(limit_ms=100)
    start(one_hub, lambda actor: actor.sleep_until(101))

    assert "100 ms of virtual time" in (one_hub.run() or "")
    assert one_hub.now_ms <= 100


def test_a_kill_from_outside_ends_an_actor_where_it_waits() -> None:
    one_hub, left, ended = hub(), list[str](), list[Actor]()

    def run(actor: Actor) -> None:
        try:
            actor.sleep_until(50)
            left.append("lived on")
        finally:
            left.append("cleaned up")

    victim = one_hub.spawn(run, name="victim", ended=ended.append, at_ms=0)
    one_hub.at(20, victim.kill)

    assert one_hub.run() is None
    assert left == ["cleaned up"]
    assert ended == [victim]
    assert victim.killed


def test_a_kill_from_inside_does_not_return() -> None:
    one_hub, left = hub(), list[str]()

    def run(actor: Actor) -> None:
        actor.kill()
        left.append("lived on")

    victim = start(one_hub, run)

    assert one_hub.run() is None
    assert not left
    assert victim.killed


def test_one_actor_may_kill_another_and_goes_on_itself() -> None:
    one_hub, seen = hub(), list[str]()
    victim = start(one_hub, lambda actor: actor.sleep_until(100), name="victim")

    def run(actor: Actor) -> None:
        actor.sleep_until(10)
        victim.kill()
        seen.append("after the kill")
        actor.sleep_until(20)
        seen.append("later")

    start(one_hub, run, name="killer")

    assert one_hub.run() is None
    assert seen == ["after the kill", "later"]
    assert victim.killed


def test_who_is_paused_misses_its_turn_and_takes_it_late() -> None:
    one_hub, woke = hub(), list[int]()

    def run(actor: Actor) -> None:
        actor.sleep_until(30)
        woke.append(one_hub.now_ms)

    paused = start(one_hub, run)
    one_hub.at(10, paused.pause)
    one_hub.at(80, paused.resume)

    assert one_hub.run() is None
    assert woke == [80]


def test_an_error_of_an_actor_is_its_own() -> None:
    one_hub, seen = hub(), list[int]()

    def fails(actor: Actor) -> None:
        raise ValueError(actor.name)

    failed = start(one_hub, fails)
    start(one_hub, lambda actor: seen.append(one_hub.now_ms), name="other", at_ms=9)

    assert one_hub.run() is None
    assert isinstance(failed.error, ValueError)
    assert seen == [9]


@pytest.mark.parametrize("instant", [0, 5])
def test_a_cancelled_callback_does_not_come(instant: int) -> None:
    one_hub, came = hub(), list[str]()
    due = one_hub.at(instant, lambda: came.append("came"))
    one_hub.cancel(due)

    assert one_hub.run() is None
    assert not came


def test_what_a_callback_raises_ends_the_run_and_is_told() -> None:
    one_hub = hub()
    victim = start(one_hub, lambda actor: actor.sleep_until(100))

    def raises() -> None:
        raise KeyError("a row that is not there")

    one_hub.at(5, raises)

    assert "a row that is not there" in (one_hub.run() or "")
    assert victim.killed
