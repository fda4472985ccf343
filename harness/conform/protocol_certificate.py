"""The certificate of an operator that was judged over the protocol, in the form of every other certificate.

A conversation is a run; the folder of the catalogue that it stands in is the check, the mode of its operator the
family. Its transcript lies beside the certificate, so that somebody else can read and judge what was said.
Invariant: all but the subject, the versions and the time follows from the cases.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from harness.conform.case import CaseOutcome, ConformCase, lines_file, stem_of_case
from harness.conform.conclusion import concluded, rows_of, second_word
from harness.conform.conversation_agreement import JUDGE, judge_digest
from harness.conform.operator_judged import OperatorJudged, repeated_by
from harness.conform.protocol.script import MODES
from harness.conform.scripts_judged import RANDOM_SCRIPTS
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
