"""The circuit breaker and its waits: open after failures in a row, one probe, closed by its success alone."""

from __future__ import annotations

import pytest

from harness.database.pool import Circuit
from harness.database.transactions import Backoff
from harness.system.choices import Choices


class Clock:
    now_s = 0.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def circuit(clock: Clock) -> Circuit:
    backoff = Backoff(Choices(1, "test"), first_ms=100, longest_ms=400)
    return Circuit(now_s=lambda: clock.now_s, backoff=backoff, failures_max=3)


def fail(circuit: Circuit, times: int) -> None:
    for _ in range(times):
        assert circuit.admits()
        circuit.failed()


def test_fewer_failures_than_it_takes_leave_it_closed(circuit: Circuit) -> None:
    fail(circuit, 2)

    assert [circuit.admits() for _ in range(5)] == [True] * 5


def test_a_success_forgets_the_failures_before_it(circuit: Circuit) -> None:
    fail(circuit, 2)
    circuit.succeeded()
    fail(circuit, 2)

    assert circuit.is_closed


def test_nobody_connects_while_it_is_open(circuit: Circuit, clock: Clock) -> None:
    fail(circuit, 3)
    clock.now_s = 0.049

    assert not circuit.admits()


def test_who_is_not_admitted_is_told_to_wait_and_never_for_nothing(circuit: Circuit, clock: Clock) -> None:
    fail(circuit, 3)
    assert 0.05 <= circuit.wait_s <= 0.1
    clock.now_s = 0.2

    assert circuit.wait_s > 0


def test_one_probe_is_made_when_its_time_is_over(circuit: Circuit, clock: Clock) -> None:
    fail(circuit, 3)
    clock.now_s = 0.101

    assert [circuit.admits() for _ in range(4)] == [True, False, False, False]


def test_a_probe_that_fails_opens_it_for_longer(circuit: Circuit, clock: Clock) -> None:
    fail(circuit, 3)
    clock.now_s = 0.101
    fail(circuit, 1)
    clock.now_s = 0.2

    assert not circuit.admits()


def test_a_probe_that_succeeds_lets_the_others_through(circuit: Circuit, clock: Clock) -> None:
    fail(circuit, 3)
    clock.now_s = 0.101
    assert circuit.admits()
    circuit.succeeded()

    assert [circuit.admits() for _ in range(3)] == [True] * 3


def test_a_probe_that_was_cancelled_lets_another_one_try(circuit: Circuit, clock: Clock) -> None:
    fail(circuit, 3)
    clock.now_s = 0.101
    assert circuit.admits()
    circuit.abandoned()

    assert circuit.admits()


def test_waits_double_up_to_the_longest_and_are_never_less_than_half() -> None:
    backoff = Backoff(Choices(7, "test"), first_ms=20, longest_ms=100)

    waits = [backoff.next_ms() for _ in range(6)]

    assert all(
        bound // 2 <= wait <= bound for wait, bound in zip(waits, (20, 40, 80, 100, 100, 100), strict=True)
    )


def test_waits_are_the_seeds_and_two_clients_do_not_wait_alike() -> None:
    def waits(seed: int) -> list[int]:
        backoff = Backoff(Choices(seed, "test"))
        return [backoff.next_ms() for _ in range(8)]

    assert waits(1) == waits(1)
    assert waits(1) != waits(2)
