"""One implementation of the operator, judged over the protocol: the conversations, then random scripts, as one value.

Answers to one column of Bowtie's table. Invariant: the value is plain data with all that a page, a certificate or a
repetition needs; it is green only if something passed, nothing failed and nothing was left out by giving up.
"""

from __future__ import annotations

import hashlib
import platform
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.conform.case import CaseOutcome, ConformCase
from harness.conform.conversations_judged import judge_conversations
from harness.conform.explained import EXPLANATIONS
from harness.conform.protocol.driver import ProgramDriver
from harness.conform.protocol.events import Hello
from harness.conform.protocol.program import Limits
from harness.conform.scripts_judged import ScriptsJudged, judge_scripts
from harness.system.errors import UsageError
from harness.system.versions import VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is judged, and by what."""

    label: str
    argv: Sequence[str]
    asks: str = "strict"
    """The profile that the program is asked to serve."""
    yardstick: str = "strict"
    """The profile that it is judged by."""
    seed: int
    scripts: int
    limits: Limits
    beside: str | None = None
    """The name by which `--beside` knows it; None: the command line has its command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorJudged:
    """The result of judging an operator."""

    asked: Asked
    hello: Hello
    cases: Sequence[ConformCase]
    random: ScriptsJudged | None
    """None where the conversations had to be given up, or no scripts were asked for."""

    @property
    def counts(self) -> Mapping[str, int]:
        """How many cases came to which outcome; outcomes that did not occur are 0."""
        found = Counter(case.outcome for case in self.cases)
        return {outcome.value: found[outcome] for outcome in CaseOutcome}

    @property
    def failed(self) -> list[ConformCase]:
        """The cases that failed, in the order in which they were run."""
        return [case for case in self.cases if case.outcome is CaseOutcome.FAIL]

    @property
    def holds(self) -> bool:
        """Whether it is green."""
        counts = self.counts
        return bool(counts["pass"]) and not counts["fail"] and not counts["not run"]

    def as_json(self) -> dict[str, Any]:
        """The document of the terminal, the page and the certificate."""
        asked, random = self.asked, self.random
        groups: dict[str, Counter[str]] = {}
        spoken = hashlib.sha256()
        for case in self.cases:
            groups.setdefault(case.group, Counter())[case.outcome.value] += 1
            spoken.update(f"{case.name}\n{case.transcript}\n".encode())
        return {
            "label": asked.label,
            "holds": self.holds,
            "command": [*asked.argv],
            "name": self.hello.name,
            "version": self.hello.version,
            "abilities": [*self.hello.abilities],
            "asked_to_serve": asked.asks,
            "judged_by": asked.yardstick,
            "seed": asked.seed,
            "scripts_per_mode": asked.scripts,
            "scripts": random.scripts if random else 0,
            "commands": random.commands if random else 0,
            "counts": dict(self.counts),
            "groups": [
                {"group": name, **{outcome.value: found[outcome.value] for outcome in CaseOutcome}}
                for name, found in groups.items()
            ],
            "failed": [_failed_json(case, asked.argv) for case in self.failed],
            "cases": [
                {"name": case.name, "claim": case.claim, "outcome": case.outcome.value, "why": case.why}
                for case in self.cases
            ],
            "not_shown": self.not_shown,
            "coverage": dict(random.coverage) if random else {},
            "digests": {"conversations": spoken.hexdigest(), "scripts": random.digest if random else ""},
            "versions": self.versions,
            "again": repeated_by(asked),
        }

    @property
    def versions(self) -> dict[str, str]:
        """The versions of what judged."""
        return {"floodmark": VERSION, "python": platform.python_version()}

    @property
    def not_shown(self) -> list[str]:
        """What a reader must not take from this, in words."""
        said = [
            f"{case.name} is exempt: {case.why}" for case in self.cases if case.outcome is CaseOutcome.EXEMPT
        ]
        lacking = sorted({case.why for case in self.cases if case.outcome is CaseOutcome.NOT_CLAIMED})
        for why in lacking:
            count = sum(case.why == why for case in self.cases if case.outcome is CaseOutcome.NOT_CLAIMED)
            said.append(f"{count} cases were not run, since the program does not claim what they need: {why}")
        given_up = [case for case in self.cases if case.outcome is CaseOutcome.NOT_RUN]
        if given_up:
            said.append(f"{len(given_up)} cases were not run: {given_up[0].why}")
        if self.random is None:
            said.append("no random scripts were run")
        else:
            never = [sight for sight, count in self.random.coverage.items() if not count]
            said += [f"no random script met: {', '.join(never)}"] if never else []
        return [
            *said,
            "real time, threads, a network, other operators in the chain: the protocol has one program in virtual time",
            "a checkpoint's bytes on disk, and a restore by another version of the program",
            "speed",
        ]


def judge_operator(
    asked: Asked, *, heard: Callable[[ConformCase], None] = lambda case: None
) -> OperatorJudged:
    """Judge a program. Raises SutError if it cannot be spoken to at all, UsageError if it cannot serve the profile."""
    with ProgramDriver(asked.argv, limits=asked.limits) as driver:
        hello = driver.greet()
    if asked.asks == "flink" and "flink-profile" not in hello.abilities:
        raise UsageError(
            f"{asked.label} does not claim flink-profile, so it cannot be asked for profile flink",
            fix="leave --profile flink out, or claim `flink-profile` in the answer to `hello`",
        )
    cases = judge_conversations(
        asked.argv,
        hello=hello,
        asks=asked.asks,
        yardstick=asked.yardstick,
        limits=asked.limits,
        heard=heard,
    )
    random: ScriptsJudged | None = None
    if asked.scripts and not any(case.outcome is CaseOutcome.NOT_RUN for case in cases):
        random = judge_scripts(
            asked.argv,
            hello=hello,
            asks=asked.asks,
            yardstick=asked.yardstick,
            seed=asked.seed,
            scripts=asked.scripts,
            limits=asked.limits,
            heard=heard,
        )
        cases = [*cases, *random.cases]
    return OperatorJudged(asked=asked, hello=hello, cases=cases, random=random)


def _failed_json(case: ConformCase, argv: Sequence[str]) -> dict[str, Any]:
    explained = EXPLANATIONS.get(case.known)
    return {
        "name": case.name,
        "claim": case.claim,
        "why": case.why,
        "expected": [*case.expected],
        "came": [*case.came],
        "transcript": case.transcript,
        "to_paste": case.to_paste,
        "paste_into": shlex.join(argv),
        "known": case.known,
        "explained": f"{explained.say} ({explained.source})" if explained else "",
    }


def repeated_by(asked: Asked) -> str:
    """The command that judges it again."""
    profile = "" if asked.yardstick == "strict" else f" --profile {asked.yardstick}"
    subject = f"-- {shlex.join(asked.argv)}" if asked.beside is None else f"--beside {asked.beside}"
    return f"floodmark conform --seed {asked.seed} --scripts {asked.scripts}{profile} {subject}"
