"""What one case of an operator's conformance came to: a conversation of the catalogue, or a batch of random scripts.

Answers to Bowtie's result of a case. Invariant: a case that failed has the lines to paste, and says what was expected
and what came; a case that was not run says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from harness.scenario.certificate import Agreement

TO_PASTE: Final = "to paste:\n"
"""Precedes the lines to paste in the text of a case that failed."""


class CaseOutcome(StrEnum):
    """The result of a case."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    NOT_CLAIMED = "not claimed"
    """It needs an ability that the program does not claim."""
    EXEMPT = "exempt"
    """The catalogue says why this program may answer otherwise."""
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """One command as it was sent, and the lines of its answer."""

    told: str
    answer: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformCase:
    """One case with its result."""

    name: str
    """Its folder and file in the catalogue, or `random scripts/MODE`."""
    claim: str
    outcome: CaseOutcome
    why: str = ""
    """One line: where it went wrong, or why it was not run."""
    expected: Sequence[str] = ()
    came: Sequence[str] = ()
    spoken: Sequence[Spoken] = ()
    """The conversation from `hello` to the command that went wrong."""
    known: str = ""
    """The statement of the quirk that explains it (`A80`), or of the version; empty: nothing known does."""

    second: Agreement = "silent"

    @property
    def group(self) -> str:
        """The folder of the catalogue."""
        return self.name.partition("/")[0]

    @property
    def to_paste(self) -> str:
        """The commands as lines for the program's standard input."""
        return "".join(f"{one.told}\n" for one in self.spoken)

    @property
    def transcript(self) -> str:
        """The conversation as the protocol's page writes one."""
        lines = [line for one in self.spoken for line in (f"> {one.told}", *(f"< {a}" for a in one.answer))]
        return "\n".join(lines)

    @property
    def sentence(self) -> str:
        """The claim and its result in one line."""
        if self.outcome is CaseOutcome.PASS:
            return self.claim
        return f"{self.why}; claimed: {self.claim}" if self.why else self.claim

    @property
    def told(self) -> str:
        """The conversation up to what went wrong, what was expected there, and the lines to paste."""
        lines = [self.transcript, *(f"expected: {line}" for line in self.expected or ["nothing"])]
        return "\n".join([*lines, "", f"{TO_PASTE}{self.to_paste}"])


def stem_of_case(name: str) -> str:
    """A name for the files of a case."""
    return name.replace("/", "__").replace(" ", "_")


def lines_file(name: str) -> str:
    """The file of a case that failed, in a certificate's folder: its lines to paste."""
    return f"failed/{stem_of_case(name)}.jsonl"
