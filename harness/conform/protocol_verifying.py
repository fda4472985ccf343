"""Judges the conversations of a protocol's certificate again, from their transcripts and the catalogue.

Invariant: a conversation passes only if every command of its file was answered as the file says; random scripts have no
transcript and are not judged again, only their seed repeats them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.conform.case import TO_PASTE, lines_file
from harness.conform.protocol.conversation_file import HELLO, ConversationFile, catalogue, conversation_in
from harness.conform.protocol.transcript import Transcript
from harness.scenario.certificate import Certificate, CertifiedRun, beside_certificate


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
    """Each run whose transcript can be judged, with what is wrong with its verdict; empty: nothing."""
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
