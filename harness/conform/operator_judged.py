"""One implementation of the operator, judged over the protocol: the conversations, then random scripts, as one value.

Answers to one column of Bowtie's table. Invariant: the value is plain data with all that a page, a certificate or a
repetition needs; it is green only if something passed, nothing failed and nothing was left out by giving up. In its
certificate a conversation is a run; the folder of the catalogue that it stands in is the check, the mode of its
operator the family; its transcript lies beside, so that somebody else can read and judge what was said.
"""

from __future__ import annotations

import hashlib
import platform
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.conform.cases_judged import (
    JUDGE,
    RANDOM_SCRIPTS,
    Asked,
    ScriptsJudged,
    judge_conversations,
    judge_digest,
    judge_scripts,
)
from harness.conform.conclusion import (
    CaseOutcome,
    ConformCase,
    concluded,
    lines_file,
    rows_of,
    second_word,
    stem_of_case,
)
from harness.conform.protocol.driver import ProgramDriver
from harness.conform.protocol.events import Hello
from harness.conform.protocol.script import MODES
from harness.conform.script_difference import EXPLANATIONS
from harness.scenario.certificate import (
    Certificate,
    CertifiedRun,
    SealedFile,
    SubjectOfCertificate,
    Verdict,
    digest_of_runs,
    sealed,
    sealed_file,
)
from harness.system.errors import UsageError
from harness.system.json_types import Json
from harness.system.versions import VERSION


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

    def as_json(self) -> Json:
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
    cases = judge_conversations(asked, hello=hello, heard=heard)
    random: ScriptsJudged | None = None
    if asked.scripts and not any(case.outcome is CaseOutcome.NOT_RUN for case in cases):
        random = judge_scripts(asked, hello=hello, heard=heard)
        cases = [*cases, *random.cases]
    return OperatorJudged(asked=asked, hello=hello, cases=cases, random=random)


def _failed_json(case: ConformCase, argv: Sequence[str]) -> Json:
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


CHECKS: Final = {
    "blocked_with_retry": "a full queue and retries",
    "callbacks": "what a user callback raises fails the task",
    "capacity": "a full queue holds its input up, and lets it in again",
    "completion": "an outcome counts once, and leaves in its mail",
    "delays": "the delay before each retry",
    "end": "the end of input drains, `close` does not",
    "keyed": "mode keyed: the order of each key",
    "last_calls": "the last call at the end of input",
    "late": "an outcome that comes late counts for nobody else",
    "order": "what leaves in which order: records, watermarks, statuses, markers",
    "refusals": "what is refused, with which code, and changes nothing",
    "restore": "a restored operator calls anew what had not left",
    "retry": "which outcome is retried, how often",
    "snapshots": "a snapshot holds what has come and not left",
    "states": "which command is in order when",
    "stats": "the counters",
    "timeout": "the timeout, its handler and its timer",
    "total_timeout": "one timeout over all attempts",
    "turns": "one answer a command, and what waits under `hold`",
    "values": "any JSON value passes as it came",
    RANDOM_SCRIPTS: "it answers as the reference does on random scripts",
}
"""Each folder of the catalogue, in words."""
_VERDICTS: Final[dict[CaseOutcome, Verdict]] = {
    CaseOutcome.PASS: "pass",
    CaseOutcome.FAIL: "fail",
    CaseOutcome.NOT_CLAIMED: "not-claimed",
    CaseOutcome.EXEMPT: "not-claimed",
    CaseOutcome.NOT_RUN: "unknown",
}
_NO_MODE: Final = "any mode"
_ONE_JUDGE: Final = "random scripts, and conversations that broke off, have one judge."


def protocol_certificate(judged: OperatorJudged, folder: Path, *, made_at: str, took_s: float) -> Certificate:
    """The certificate; transcripts and lines to paste are written into `folder`."""
    counted = [
        case for case in judged.cases if case.outcome not in {CaseOutcome.NOT_CLAIMED, CaseOutcome.EXEMPT}
    ]
    runs = [_run(case, judged, folder) for case in counted]
    second = second_word(
        runs,
        judge=JUDGE,
        sha256=judge_digest(),
        differs=[
            f"{run.name}: the first judge says {run.verdict}" for run in runs if run.second == "differs"
        ],
        silent=sum(run.second == "silent" for run in runs),
        why_silent=_ONE_JUDGE,
    )
    conclusion = concluded(runs, asked=len(runs), second=second)
    asked = judged.asked
    return sealed(
        Certificate(
            schema_version=1,
            tone=conclusion.tone,
            word=conclusion.word,
            sentence=conclusion.sentence,
            cause=conclusion.cause,
            subject=_subject(judged),
            profile=asked.yardstick,
            profile_about=(
                f"the catalogue's conversations of profile {asked.yardstick}, and {asked.scripts} random scripts of "
                f"each mode that is claimed, seed {asked.seed}"
            ),
            level="operator protocol, virtual time",
            world=["no database: the harness plays the service, the clock, the source and the coordinator"],
            versions=judged.versions,
            made_at=made_at,
            took_s=took_s,
            asked=len(runs),
            rows=rows_of(runs, CHECKS),
            runs=runs,
            not_shown=judged.not_shown,
            second=second,
            digest=digest_of_runs(runs),
            again=repeated_by(asked),
        )
    )


def _subject(judged: OperatorJudged) -> SubjectOfCertificate:
    hello, asked = judged.hello, judged.asked
    return SubjectOfCertificate(
        kind="protocol",
        name=asked.label,
        about=f"{hello.name} {hello.version}, asked to serve profile {asked.asks}",
        files=list(_files(asked.argv)),
        facts={"command": shlex.join(asked.argv), "claims": ", ".join(hello.abilities) or "nothing"},
        expected_from=[
            "The files of the catalogue of conversations, written from the numbered statements.",
            "The reference operator's answers to the same random scripts.",
        ],
    )


def _files(argv: Sequence[str]) -> Iterator[SealedFile]:
    """The files that the command line names, its program included."""
    program = shutil.which(argv[0])
    for word in dict.fromkeys([*([program] if program else []), *argv[1:]]):
        path = Path(word)
        if path.is_file():
            yield sealed_file(path.resolve(), below=path.resolve().parent)


def _run(case: ConformCase, judged: OperatorJudged, folder: Path) -> CertifiedRun:
    verdict = _VERDICTS[case.outcome]
    conversation = None
    if case.spoken:
        conversation = _written(
            folder,
            f"conversations/{stem_of_case(case.name)}.txt",
            f"# {case.claim}\n# greeting: in the file\n\n{case.transcript}\n",
        )
    paste = ""
    if case.outcome is CaseOutcome.FAIL and case.spoken:
        _written(folder, lines_file(case.name), case.to_paste)
        paste = case.told
    families = [case.name.partition("/")[2].partition(" ")[0]]
    if case.group != RANDOM_SCRIPTS:
        told = "".join(one.told for one in case.spoken)
        families = [mode for mode in MODES if f'"mode":"{mode}"' in told] or [_NO_MODE]
    command = shlex.join(judged.asked.argv)
    return CertifiedRun(
        name=case.name,
        seed=judged.asked.seed,
        families=families,
        verdict=verdict,
        holds=verdict == "pass",
        sentence=case.sentence,
        checks={case.group: verdict},
        scenario=conversation,
        again=f"{command} < {lines_file(case.name)}" if paste else "",
        paste=paste,
        second=case.second,
    )


def _written(folder: Path, name: str, text: str) -> SealedFile:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", errors="backslashreplace")
    return sealed_file(path, below=folder)
