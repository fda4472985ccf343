"""What follows from the runs of a certificate: the rows of its table, its word, its first cause, its own gaps.

Invariant: pure functions of the runs, so `floodmark verify` draws the same conclusions from the files.

`ConformCase` is what one case of an operator's conformance came to: a conversation of the catalogue, or a batch of
random scripts.

Answers to Bowtie's result of a case. Invariant: a case that failed has the lines to paste, and says what was expected
and what came; a case that was not run says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from harness.scenario.certificate import Agreement, CertifiedRun, CheckRow, SecondWord, Tone

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


_NO_FAULT = "no fault"
"""The family of runs without faults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """The head of a certificate."""

    tone: Tone
    word: str
    sentence: str
    cause: str


def rows_of(runs: Sequence[CertifiedRun], about: Mapping[str, str]) -> list[CheckRow]:
    """A row for each check and family, in the order of `about`, then of the runs; `about` has each check's sentence."""
    families = dict.fromkeys(family for run in runs for family in run.families or [_NO_FAULT])
    checks = [check for check in about if any(check in run.checks for run in runs)]
    rows = []
    for check in checks:
        for family in families:
            mine = [run for run in runs if check in run.checks and family in (run.families or [_NO_FAULT])]
            counts = Counter(run.checks[check] for run in mine)
            if mine:
                rows.append(
                    CheckRow(
                        check=check,
                        about=about[check],
                        family=family,
                        runs=len(mine),
                        passed=counts["pass"],
                        violations=counts["fail"],
                        vacuous=counts["vacuous"],
                        unknown=counts["unknown"],
                        not_claimed=counts["not-claimed"],
                    )
                )
    return rows


def concluded(runs: Sequence[CertifiedRun], *, asked: int, second: SecondWord) -> Conclusion:
    """The word, with the first cause in front of all if it is not green."""
    bad = [run for run in runs if _is_bad(run)]
    undecided = [run for run in runs if not run.holds and not _is_bad(run)]
    counts = (
        f"{len(runs)} of {asked} runs made: {len(runs) - len(bad) - len(undecided)} hold, {len(bad)} do not"
    )
    counts += f", {len(undecided)} are undecided." if undecided else "."
    judges = "One judge judged them."
    if second.judged:
        judges = f"Two judges judged {second.judged} of them and agree on {second.agreed}."
        judges += f" One judge alone judged {second.silent}." if second.silent else ""
    sentence = f"{counts} {judges}"
    if second.differs:
        return Conclusion(tone="bad", word="the judges disagree", sentence=sentence, cause=second.differs[0])
    if bad:
        return Conclusion(tone="bad", word="not conformant", sentence=sentence, cause=_cause(bad[0]))
    if undecided or len(runs) < asked or not runs:
        cause = _cause(undecided[0]) if undecided else f"Only {len(runs)} of {asked} runs were made."
        return Conclusion(tone="open", word="not decided", sentence=sentence, cause=cause)
    return Conclusion(tone="good", word="conformant", sentence=sentence, cause="")


def second_word(
    runs: Sequence[CertifiedRun],
    *,
    judge: str,
    sha256: str,
    differs: Sequence[str],
    silent: int = 0,
    why_silent: str = "",
) -> SecondWord:
    """What the second judge said of the runs; `silent`: of how many it could not say anything, and why."""
    judged = [run for run in runs if run.second != "silent"]
    return SecondWord(
        judge=judge,
        sha256=sha256,
        judged=len(judged),
        agreed=sum(run.second == "agrees" for run in judged),
        differs=list(differs),
        silent=silent,
        why_silent=why_silent,
    )


def _is_bad(run: CertifiedRun) -> bool:
    return run.verdict == "fail" or bool(run.pitfalls)


def _cause(run: CertifiedRun) -> str:
    return f"{run.sentence} (first in {run.name}, seed {run.seed})"


def silences(runs: Sequence[CertifiedRun], rows: Sequence[CheckRow], *, second: SecondWord) -> Iterator[str]:
    """What the runs leave open, in words: checks that nothing exercised, and runs with one judge only."""
    claimed = {row.check: row.about for row in rows}
    for check, about in claimed.items():
        mine = [row for row in rows if row.check == check]
        if not any(row.passed or row.violations for row in mine):
            why = (
                "it does not apply here"
                if all(row.runs == row.not_claimed for row in mine)
                else "no run tried it"
            )
            yield f"{check} is not shown at all: {why}. ({about})"
        elif gaps := [row.family for row in mine if not row.passed and not row.violations]:
            yield f"{check} is not shown under: {', '.join(gaps)}."
    if undecided := [f"{run.name} (seed {run.seed})" for run in runs if not run.holds and not _is_bad(run)]:
        yield f"Nothing is shown by the undecided runs: {', '.join(undecided)}."
    if second.silent:
        yield f"{second.silent} of {len(runs)} runs have one judge only: {second.why_silent}"
