"""Judges a certificate again from the files beside it, with both judges, and says what does not hold.

Answers to Sonobuoy's checks of a submitted bundle. Invariant: nothing of a certificate is believed that its files can
show: digests, verdicts, the table, the word and the cause are made again and compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.conform.conclusion import TO_PASTE, concluded, lines_file, rows_of
from harness.conform.filing import TwiceJudged, both_judge_all, second_judge_digest
from harness.conform.protocol.conversation_file import (
    HELLO,
    ConversationFile,
    Transcript,
    catalogue,
    conversation_in,
)
from harness.history.invariants import INVARIANTS
from harness.history.verdict import Outcome, worst
from harness.scenario.certificate import (
    Certificate,
    CertifiedRun,
    SealedFile,
    beside_certificate,
    digest_of_runs,
    seal_of,
    sealed_file,
)
from harness.system.errors import FloodmarkError
from harness.system.json_types import Json, JsonView
from harness.system.versions import VERSION

PROTOCOL: Final = "protocol"
"""The kind whose runs are conversations, which no judge of histories judges."""
Told = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Whether a certificate holds."""

    problems: tuple[str, ...]
    """What does not hold, each named with its file or run; empty: it holds."""
    remarks: tuple[str, ...]
    """What a reader should know besides."""
    judged: int
    """The histories that were judged again."""
    twice: int
    """How many of them the second judge judged too."""
    unfinished: bool = False
    """Whether it was interrupted."""

    @property
    def holds(self) -> bool:
        return not self.problems and not self.unfinished

    def as_json(self) -> Json:
        return {
            "holds": self.holds,
            "problems": list(self.problems),
            "remarks": list(self.remarks),
            "judged": self.judged,
            "judged_by_both": self.twice,
            "unfinished": self.unfinished,
        }


def verified(
    certificate: Certificate,
    folder: Path,
    *,
    jobs: int = 1,
    told: Told = lambda done, asked: None,
    goes_on: Callable[[], bool] = lambda: True,
) -> Verification:
    """Verifies all that the files in `folder` can show. Raises WorldError if a judging process was killed."""
    problems = list(_of_document(certificate))
    problems += [problem for run in certificate.runs for problem in _of_files(run, folder, certificate)]
    if certificate.subject.kind == PROTOCOL:
        return _protocol_verified(certificate, folder, problems)
    readable: list[CertifiedRun] = []
    paths: list[Path] = []
    for run in certificate.runs:
        path = None if run.history is None else beside_certificate(run.history, folder)
        if path is not None and path.is_file():
            readable.append(run)
            paths.append(path)
    again: list[CertifiedRun] = []
    twice = 0
    for number, judged in enumerate(both_judge_all(paths, jobs=jobs, goes_on=goes_on)):
        run = readable[number]
        if isinstance(judged, FloodmarkError):
            problems.append(f"{_named(run)}: {judged.what}")
        else:
            problems += _of_verdict(run, judged, folder)
            twice += judged.second != "silent"
            again.append(run)
        told(number + 1, len(paths))
    return Verification(
        problems=tuple(dict.fromkeys(problems)),
        remarks=tuple(_remarks(certificate)),
        judged=len(again),
        twice=twice,
        unfinished=not goes_on(),
    )


def _protocol_verified(certificate: Certificate, folder: Path, problems: list[str]) -> Verification:
    """Of an operator that was judged over the protocol: its transcripts are its histories."""
    again = list(conversations_judged_again(certificate, folder))
    wrongs = [*changed_lines(certificate, folder), *again]
    problems += [f"{_named(run)}: {wrong}" for run, wrong in wrongs if wrong]
    unjudged = len(certificate.runs) - len(again)
    remark = f"{unjudged} runs have no transcript here: only {certificate.again!r} repeats them"
    return Verification(
        problems=tuple(dict.fromkeys(problems)),
        remarks=(remark,) if unjudged else (),
        judged=len(again),
        twice=0,
    )


def _named(run: CertifiedRun) -> str:
    return f"{run.name}, seed {run.seed}"


def _of_document(certificate: Certificate) -> Iterator[str]:
    """What does not follow from the runs that the document itself lists."""
    if certificate.seal != seal_of(certificate):
        yield "certificate.json was changed after it was written: its seal is not that of its content"
    if certificate.digest != digest_of_runs(certificate.runs):
        yield "certificate.json: its digest of all files is not that of the files it lists"
    of_protocol = {row.check: row.about for row in certificate.rows}
    about = of_protocol if certificate.subject.kind == PROTOCOL else INVARIANTS
    if certificate.rows != rows_of(certificate.runs, about):
        yield "certificate.json: its table does not follow from its runs"
    head = concluded(certificate.runs, asked=certificate.asked, second=certificate.second)
    if (head.tone, head.word) != (certificate.tone, certificate.word):
        yield f"certificate.json says {certificate.word!r}, and its runs say {head.word!r}"
    if head.cause != certificate.cause:
        yield "certificate.json: its cause is not that of the first run that does not hold"
    counts = [run.second for run in certificate.runs]
    if (certificate.second.judged, certificate.second.agreed) != (
        len(counts) - counts.count("silent"),
        counts.count("agrees"),
    ):
        yield "certificate.json: what it says of the second judge does not follow from its runs"


def _of_files(run: CertifiedRun, folder: Path, certificate: Certificate) -> Iterator[str]:
    """Files that are missing, changed, or not where a certificate's files are."""
    for what, file in (("scenario", run.scenario), ("history", run.history), ("verdict", run.judgement)):
        if file is None:
            if run.history is not None:
                yield f"{_named(run)}: it has a history and no {what}"
            continue
        problem = _of_file(file, folder)
        if problem:
            yield f"{_named(run)}: {what} {file.file} {problem}"
    if run.history is None and run.holds and certificate.subject.kind != PROTOCOL:
        yield f"{_named(run)}: it is said to hold, and has no history"


def _of_file(file: SealedFile, folder: Path) -> str:
    """Why the file is not the one that was written; empty: it is."""
    path = beside_certificate(file, folder)
    if path is None:
        return "lies outside of the certificate's folder"
    if not path.is_file():
        return "is missing"
    try:
        found = sealed_file(path, below=folder)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    if found.sha256 == file.sha256:
        return ""
    digests = f"SHA-256 {found.sha256[:12]}… instead of {file.sha256[:12]}…"
    return f"was changed: {digests}, {found.bytes} bytes instead of {file.bytes}"


def _of_verdict(run: CertifiedRun, judged: TwiceJudged, folder: Path) -> Iterator[str]:
    """Where the judges now say something else than the certificate, or than the verdict's file."""
    said: Mapping[str, str] = {one["invariant"]: one["verdict"] for one in judged.judgement["invariants"]}
    differing = [name for name in {**run.checks, **said} if run.checks.get(name) != said.get(name)]
    if differing:
        first = differing[0]
        yield (
            f"{_named(run)}: the certificate says {first} {run.checks.get(first)}, "
            f"judged again it is {said.get(first)} ({len(differing)} invariants differ)"
        )
    if worst([Outcome(run.verdict), Outcome(judged.judgement["verdict"])]) != run.verdict:
        yield f"{_named(run)}: the certificate says {run.verdict}, judged again it is {judged.judgement['verdict']}"
    if run.holds and run.verdict != "pass":
        yield f"{_named(run)}: it is said to hold, and its verdict is {run.verdict}"
    if judged.second != run.second:
        told = f": {judged.differs[0]}" if judged.differs else ""
        yield f"{_named(run)}: the second judge {judged.second}, and the certificate says it {run.second}{told}"
    yield from _of_verdict_file(run, judged, folder)


def _of_verdict_file(run: CertifiedRun, judged: TwiceJudged, folder: Path) -> Iterator[str]:
    if run.judgement is None or _of_file(run.judgement, folder):
        return
    try:
        document = msgspec.json.decode((folder / run.judgement.file).read_bytes(), type=dict[str, Any])
        core = _core(document["judgement"])
        of_run = document["outcome"], document["seed"], [one["name"] for one in document["pitfalls"]]
    except (OSError, msgspec.DecodeError, KeyError, TypeError, UnicodeDecodeError):
        yield f"{_named(run)}: verdict {run.judgement.file} is none"
        return
    if core != _core(json.loads(json.dumps(judged.judgement))):
        yield f"{_named(run)}: verdict {run.judgement.file} is not what the first judge says of the history"
    if of_run != (run.verdict, run.seed, run.pitfalls):
        yield f"{_named(run)}: verdict {run.judgement.file} is not the one that the certificate tells"


def _core(judgement: JsonView) -> Sequence[object]:
    """The part of a judgement that does not depend on how a version words it."""
    named = ("class", "s", "id", "j", "w", "c", "table", "events")
    found: list[Sequence[Any]] = []
    for one in judgement["invariants"]:
        anomalies = [[str(anomaly.get(name)) for name in named] for anomaly in one["anomalies"]]
        found.append([one["invariant"], one["verdict"], one["omitted"], anomalies])
    return [judgement["verdict"], found]


def _remarks(certificate: Certificate) -> Iterator[str]:
    made_by = certificate.versions.get("floodmark", "another version")
    if made_by != VERSION:
        yield f"it was made by floodmark {made_by}, and this is floodmark {VERSION}"
    if certificate.second.sha256 != second_judge_digest():
        yield f"{certificate.second.judge} is not the file that judged then"
    if certificate.second.silent:
        yield f"{certificate.second.silent} runs were judged by one judge only: {certificate.second.why_silent}"
    yield "the digests of the subject's own files are not checked: those files are not beside the certificate"


def changed_lines(certificate: Certificate, folder: Path) -> Iterator[tuple[CertifiedRun, str]]:
    """Each run that failed whose file of lines to paste is not what the certificate says, and why."""
    for run in certificate.runs:
        if not run.paste:
            continue
        file = lines_file(run.name)
        try:
            lines = (folder / file).read_bytes()
        except OSError as error:
            yield run, f"{file} cannot be read: {error.strerror or error}"
            continue
        told = run.paste.rpartition(TO_PASTE)[2].encode("utf-8", "backslashreplace")
        if lines != told:
            yield run, f"{file} was changed: its lines are not those of certificate.json"


def conversations_judged_again(certificate: Certificate, folder: Path) -> Iterator[tuple[CertifiedRun, str]]:
    """Each run whose transcript can be judged, with what is wrong with its verdict; empty: nothing.

    Random scripts have no transcript and are not judged again, only their seed repeats them.
    """
    files = {file.name: file for file in catalogue()}
    for run in certificate.runs:
        transcript = None if run.scenario is None else beside_certificate(run.scenario, folder)
        if transcript is None or run.name not in files or not transcript.is_file():
            continue
        again = _verdict(transcript, files[run.name])
        wrong = (
            f"judged again its transcript is a {again}, not a {run.verdict}" if again != run.verdict else ""
        )
        yield run, wrong


def _verdict(transcript: Path, file: ConversationFile) -> str:
    try:
        spoken = conversation_in(transcript.read_text(encoding="utf-8"), name=file.name)
        told = [one for one in spoken.exchanges if file.greeted or one.told != HELLO]
        wanted = [one for one in file.exchanges if file.greeted or one.told != HELLO]
        written, heard = Transcript(), Transcript()
        same = [
            written.take(want.told, want.answer) == heard.take(got.told, got.answer)
            for want, got in zip(wanted, told, strict=False)
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "unreadable text"
    return "pass" if all(same) and len(told) == len(wanted) else "fail"
