"""Every conversation of the catalogue goes as its file says: here, with FLIP-12's first design, and with the real Flink.

Invariant: nothing in a file is recorded from a system; each was written from the protocol's page and the statements that
its claim cites.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

import pytest

from harness.errors import FloodmarkError
from harness.oracle.launch import find_oracle
from harness.protocol.limits import Limits
from harness.protocol.program import Program
from harness.sut.serve import SYSTEMS
from harness.sut.serve.tests.conversation_file import ConversationFile, catalogue
from harness.sut.serve.tests.speaking import spoken_in_process, spoken_to_program
from harness.sut.serve.tests.transcript import Transcript
from harness.world.settings import WorldSettings

CATALOGUE = catalogue()
CONVERSATIONS_MIN = 120
CITES = re.compile(r"\b(A\d+|B\d+|page: \w+)")


def _cases(system: str, abilities: Sequence[str]) -> Iterator[object]:
    for file in CATALOGUE:
        for profile in file.profiles:
            if (system, profile) == ("flink", "strict"):
                continue  # a file that names it alone differs; else both profiles say the same
            if system not in file.not_for and {*file.needs(profile)} <= {*abilities}:
                yield pytest.param(file, profile, id=f"{file.name}-{profile}")


@pytest.mark.parametrize(
    ("file", "profile"), list(_cases("reference", SYSTEMS["reference"].abilities))
)
def test_the_reference_answers_as_the_catalogue_says(file: ConversationFile, profile: str) -> None:
    assert_as_written(file, spoken_in_process("reference", file.exchanges, profile=profile))


@pytest.mark.parametrize(
    ("file", "profile"), list(_cases("reference-emitter", SYSTEMS["reference-emitter"].abilities))
)
def test_the_first_design_answers_as_the_catalogue_says_where_it_claims(
    file: ConversationFile, profile: str
) -> None:
    assert_as_written(file, spoken_in_process("reference-emitter", file.exchanges, profile=profile))


@pytest.fixture(scope="module")
def flink() -> list[str]:
    """The command line of the real Flink; skipped with what it lacks."""
    try:
        return find_oracle(WorldSettings.from_environment())
    except FloodmarkError as lacking:
        pytest.skip(str(lacking))


FLINK_CLAIMS = ("ordered", "unordered", "retry", "snapshot", "marker", "flink-profile")


@pytest.mark.oracle
@pytest.mark.parametrize(("file", "profile"), list(_cases("flink", FLINK_CLAIMS)))
def test_the_real_flink_answers_as_the_catalogue_says(
    flink: list[str], file: ConversationFile, profile: str
) -> None:
    program = Program.start(flink, limits=Limits())
    try:
        assert_as_written(file, spoken_to_program(program, file.exchanges, profile=profile))
    finally:
        program.kill()


def assert_as_written(file: ConversationFile, answers: Sequence[Sequence[str]]) -> None:
    """Whether the answers mean what is written, command by command."""
    written, heard = Transcript(), Transcript()
    for exchange, answer in zip(file.exchanges, answers, strict=True):
        place = f"{file.name}.txt:{exchange.line}: {exchange.told}\n" + "\n".join(answer)
        assert heard.take(exchange.told, answer) == written.take(exchange.told, exchange.answer), place


def test_each_file_claims_something_of_its_own_and_cites_its_source() -> None:
    claims = [file.claim for file in CATALOGUE]

    assert len(CATALOGUE) >= CONVERSATIONS_MIN
    assert len({*claims}) == len(claims)
    assert [file.name for file in CATALOGUE if not CITES.search(file.claim)] == []
    assert {profile for file in CATALOGUE for profile in file.profiles} == {"strict", "flink"}
    assert all(exchange.told is not None for exchange in chain.from_iterable(f.exchanges for f in CATALOGUE))
