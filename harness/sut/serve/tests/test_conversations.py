"""Every conversation of the catalogue goes as its file says: here, with FLIP-12's first design, with the real Flink.

Invariant: no file was recorded from a system; each was written from the protocol and the statements that it cites.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pytest

from harness.conform.oracle.program import find_oracle
from harness.conform.protocol.conversation_file import (
    HELLO,
    ConversationFile,
    Exchange,
    Transcript,
    catalogue,
)
from harness.conform.protocol.program import Limits, Program
from harness.sut.serve import SYSTEMS
from harness.sut.serve.tests.speaking import asked, spoken_in_process, spoken_to_program
from harness.system.errors import FloodmarkError
from harness.world.settings import WorldSettings
from tools.cases import each

CATALOGUE = catalogue()
CONVERSATIONS_MIN = 120
CITES = re.compile(r"\b(A\d+|B\d+|page: \w+)")


def _cases(system: str, abilities: Sequence[str]) -> Iterator[object]:
    for file in CATALOGUE:
        for profile in file.profiles:
            if system == "flink" and (profile == "strict" or file.greeted):
                continue  # `strict` is not measured on it; and one program serves all, which is greeted once
            if system not in file.not_for and {*file.needs(profile)} <= {*abilities}:
                yield pytest.param(file, profile, id=f"{file.name}-{profile}")


@each(("file", "profile"), list(_cases("reference", SYSTEMS["reference"].abilities)))
def test_the_reference_answers_as_the_catalogue_says(file: ConversationFile, profile: str) -> None:
    answers = spoken_in_process("reference", file.exchanges, profile=profile)

    assert_as_written(file.exchanges, answers, name=file.name)


@each(("file", "profile"), list(_cases("reference-emitter", SYSTEMS["reference-emitter"].abilities)))
def test_the_first_design_answers_as_the_catalogue_says_where_it_claims(
    file: ConversationFile, profile: str
) -> None:
    answers = spoken_in_process("reference-emitter", file.exchanges, profile=profile)

    assert_as_written(file.exchanges, answers, name=file.name)


@pytest.fixture(scope="module")
def flink() -> Iterator[Program]:
    """The real Flink, greeted; skipped with what it lacks."""
    try:
        command = find_oracle(WorldSettings.from_environment())
    except FloodmarkError as lacking:
        pytest.skip(str(lacking))
    program = Program(command, limits=Limits())
    asked(program, HELLO)
    yield program
    program.kill()


FLINK_CLAIMS = ("ordered", "unordered", "retry", "snapshot", "marker", "flink-profile")


@pytest.mark.oracle
@pytest.mark.parametrize(("file", "profile"), list(_cases("flink", FLINK_CLAIMS)))
def test_the_real_flink_answers_as_the_catalogue_says(
    flink: Program, file: ConversationFile, profile: str
) -> None:
    exchanges = [exchange for exchange in file.exchanges if exchange.told != HELLO or file.greeted]

    answers = spoken_to_program(flink, exchanges, profile=profile)
    asked(flink, '{"cmd":"close"}')  # refused where the conversation has closed already

    assert_as_written(exchanges, answers, name=file.name)


def assert_as_written(exchanges: Sequence[Exchange], answers: Sequence[Sequence[str]], *, name: str) -> None:
    """Whether the answers mean what is written, command by command."""
    written, heard = Transcript(), Transcript()
    for exchange, answer in zip(exchanges, answers, strict=True):
        place = f"{name}.txt:{exchange.line}: {exchange.told}\n" + "\n".join(answer)
        assert heard.take(exchange.told, answer) == written.take(exchange.told, exchange.answer), place


def test_each_file_claims_something_of_its_own_and_cites_its_source() -> None:
    claims = [file.claim for file in CATALOGUE]

    assert len(CATALOGUE) >= CONVERSATIONS_MIN
    assert len({*claims}) == len(claims)
    assert [file.name for file in CATALOGUE if not CITES.search(file.claim)] == []
    assert {profile for file in CATALOGUE for profile in file.profiles} == {"strict", "flink"}
