"""A conversation of the catalogue spoken to a system: in this process, or to a running program.

Invariant: every line that comes back is read and followed as the harness reads and follows it, so its shape and its
place in the conversation are right before anybody asks whether it is the right answer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from harness.conform.protocol.conversation import Conversation
from harness.conform.protocol.conversation_file import GREETING, HELLO, ConversationScript, Exchange
from harness.conform.protocol.events import read_event
from harness.conform.protocol.program import Program, await_answers
from harness.sut.serve import SYSTEMS, converse

QUIET = '{"ev":"quiet"}'


def spoken_in_process(system: str, exchanges: Sequence[Exchange], *, profile: str) -> list[list[str]]:
    """The answers of a system of this project, each read and followed."""
    script = ConversationScript(exchanges, profile=profile)
    answers: list[list[str]] = []
    told: list[str] = []
    heard: list[str] = []

    def read() -> bytes:
        if told:
            assert heard.pop() == QUIET, "an answer ends with `quiet`"
            assert QUIET not in heard, "one `quiet` answers a command"
            answers.append(heard.copy())
            script.learn(heard)
            heard.clear()
        if len(told) == len(exchanges):
            return b""
        told.append(script.line(len(told)))
        return told[-1].encode() + b"\n"

    converse(SYSTEMS[system], read=read, write=lambda line: heard.append(line.decode().removesuffix("\n")))
    _follow(told, answers)
    return answers


def _follow(told: Sequence[str], answers: Sequence[Sequence[str]]) -> None:
    conversation = Conversation()
    if HELLO not in told:  # it was said before, by another conversation with the same program
        conversation.follow(json.loads(HELLO), [read_event(GREETING.encode())])
    for line, answer in zip(told, answers, strict=True):
        conversation.follow(_command(line), [read_event(event.encode()) for event in answer])


def lines_in_process(system: str, lines: Sequence[bytes]) -> list[bytes]:
    """What a system of this project writes for these lines."""
    unread = list(reversed(lines))
    written: list[bytes] = []
    converse(SYSTEMS[system], read=lambda: unread.pop() if unread else b"", write=written.append)
    return written


def spoken_to_program(program: Program, exchanges: Sequence[Exchange], *, profile: str) -> list[list[str]]:
    """The answers of a running program, each read and followed."""
    script = ConversationScript(exchanges, profile=profile)
    told, answers = list[str](), list[list[str]]()
    for index in range(len(exchanges)):
        told.append(script.line(index))
        answers.append(asked(program, told[-1]))
        script.learn(answers[-1])
    _follow(told, answers)
    return answers


def asked(program: Program, line: str) -> list[str]:
    """One command's answer."""
    program.listen()
    program.feed(line.encode() + b"\n", commands=1)
    await_answers(program)
    return [event.decode() for event in program.take(1)[0]]


def _command(line: str) -> dict[str, Any]:
    """What a line is, for those that may be answered otherwise than by a refusal."""
    try:
        command = json.loads(line)
    except ValueError:
        return {}
    return command if isinstance(command, dict) else {}
