"""The second judge of conversations: the reference gets the same commands, and the answers are compared.

The first judge compares with the catalogue's file (`harness.conform.protocol.transcript`); this one never reads what
the file expects, and compares by `harness.conform.protocol.comparison`, which shares no code with the first.
Invariant: where it cannot tell (a conversation that broke off, a held failure that each side may report later), it is
silent.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import file_digest
from pathlib import Path
from typing import Final

from harness.conform.case import CaseOutcome, Spoken
from harness.conform.protocol import comparison
from harness.conform.protocol.comparison import MismatchKind, Moment, compare
from harness.conform.protocol.conversation import ConversationPhase
from harness.conform.protocol.conversation_file import HELLO, ConversationFile, ConversationScript
from harness.conform.protocol.driver import ProgramDriver, command_in
from harness.conform.protocol.events import Event, Hello, read_event
from harness.scenario.certificate import Agreement

JUDGE: Final = "harness/conform/protocol/comparison.py, which compares with the reference's answers"


def judge_digest() -> str:
    """The SHA-256 of the second judge's file."""
    assert comparison.__file__ is not None, "it is a file of ours"
    with Path(comparison.__file__).open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def agreement_of(
    reference: ProgramDriver,
    file: ConversationFile,
    spoken: Sequence[Spoken],
    *,
    asks: str,
    first: CaseOutcome,
) -> Agreement:
    """Whether the second judge agrees with the first; `spoken`: what the program was told, and its answers."""
    script = ConversationScript(file.exchanges, profile=asks)
    moment = Moment()
    for index, theirs in enumerate(spoken):
        if theirs.told == HELLO and not file.greeted:
            continue
        told = script.line(index)
        answer = reference.tell_line(told)
        script.learn(answer)
        command = command_in(told)
        if command.get("cmd") == "open":
            config = command.get("config")
            mode = str(config.get("mode", "")) if isinstance(config, dict) else ""
            moment = Moment(mode=mode, reissued=mode != "ordered" and command.get("restore") is not None)
        left, right = _events(answer), _events(theirs.answer)
        mismatch = compare(command, left, right, moment=moment)
        if mismatch is not None:
            if mismatch.kind is MismatchKind.FAILURE and command.get("hold") is True:
                return "silent"
            return "agrees" if first is CaseOutcome.FAIL else "differs"
        talk = reference.conversation
        moment = Moment(
            blocked=talk.blocked,
            failed=talk.phase is ConversationPhase.FAILED,
            mode=moment.mode,
            reissued=moment.reissued,
        )
    return "agrees" if first is CaseOutcome.PASS else "differs"


def _events(answer: Sequence[str]) -> list[Event]:
    """Without `hello`, in which each program names itself."""
    events = [read_event(line.encode()) for line in answer]
    return [event for event in events if type(event) is not Hello]
