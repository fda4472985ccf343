"""A process is known by its pid and its start time; nothing else is ever signalled."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness.system.clock import Deadline, wait_until
from harness.system.process_identity import end_process, identify, is_alive, this_owner


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A child that does nothing for long."""
    with subprocess.Popen(["sleep", "60"]) as child:
        yield child
        child.kill()


def test_a_process_is_itself_for_as_long_as_it_lives(sleeper: subprocess.Popen[bytes]) -> None:
    first = identify(sleeper.pid)

    assert first is not None
    assert first == identify(sleeper.pid)
    assert is_alive(first)


def test_a_process_that_got_the_pid_later_is_not_the_one_meant(sleeper: subprocess.Popen[bytes]) -> None:
    now = identify(sleeper.pid)
    assert now is not None
    earlier = replace(now, started=now.started - 1)

    assert not is_alive(earlier)
    assert not end_process(earlier)
    assert sleeper.poll() is None


def test_ending_a_process_ends_exactly_it(sleeper: subprocess.Popen[bytes]) -> None:
    who = identify(sleeper.pid)
    assert who is not None

    assert end_process(who)
    assert not is_alive(who)


def test_a_zombie_counts_as_gone() -> None:
    with subprocess.Popen(["true"]) as child:
        assert wait_until(lambda: identify(child.pid) is None, deadline=Deadline(60))


def test_an_owner_is_alive_while_its_process_is() -> None:
    me = this_owner()

    assert me.process.pid == os.getpid()
    assert me.is_alive()
    assert not replace(me, process=replace(me.process, started=me.process.started - 1)).is_alive()


def test_an_owner_of_another_boot_is_dead_and_one_of_another_machine_is_foreign() -> None:
    me = this_owner()

    assert not replace(me, boot="earlier").is_alive()
    assert not replace(me, boot="earlier").is_foreign()
    assert replace(me, machine="elsewhere").is_foreign()
    assert not replace(me, machine="elsewhere").is_alive()
