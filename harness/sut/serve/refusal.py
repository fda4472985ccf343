"""Why a command is not performed: a code of the protocol and a sentence.

Invariant: a refusal changes nothing; it is raised before the operator has heard of the command.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Code", "Refusal"]


class Code(StrEnum):
    """The codes of the protocol."""

    NOT_JSON = "not-json"
    UNKNOWN_COMMAND = "unknown-command"
    BAD_STATE = "bad-state"
    UNSUPPORTED = "unsupported"
    BAD_ARGUMENT = "bad-argument"
    UNKNOWN_CALL = "unknown-call"


class Refusal(Exception):
    """A command that is answered with an error and not performed."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
