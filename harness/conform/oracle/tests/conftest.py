"""The oracle for tests: one program for all conversations of a session, closed and greeted in between."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.conform.oracle.program import find_oracle
from harness.conform.oracle.tests.talk import Talk
from harness.system.errors import WorldError
from harness.world.settings import WorldSettings


@pytest.fixture(scope="session")
def oracle_command() -> list[str]:
    """The command line of the oracle; the test is skipped, with the reason, where it is not set up."""
    try:
        return find_oracle(WorldSettings.from_environment())
    except WorldError as error:
        pytest.skip(str(error))


@pytest.fixture
def fresh(oracle_command: list[str]) -> Iterator[Talk]:
    """A program that was never spoken to."""
    talk = Talk(oracle_command)
    yield talk
    talk.end()


@pytest.fixture(scope="session")
def _greeted(oracle_command: list[str]) -> Iterator[Talk]:
    talk = Talk(oracle_command)
    talk.say("hello", protocol=1)
    yield talk
    talk.end()


@pytest.fixture
def talk(_greeted: Talk) -> Iterator[Talk]:
    """A greeted program with nothing open; the same one for all tests, as the protocol allows."""
    yield _greeted
    _greeted.say("close")  # refused where the test has closed already
