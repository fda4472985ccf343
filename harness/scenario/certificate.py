"""`certificate.json`: what was judged, how, and what was found, as one value with a schema.

Invariants: `reports/schemas/certificate.v1.json` is generated from the structs here; within a version fields are
added, never changed. Everything in a certificate but `subject`, `world`, `versions`, `made_at` and the commands
follows from the files that its runs name (`harness.conform.verifying`). `seal` shows a change, not its author.
"""

from __future__ import annotations

import json
from hashlib import file_digest, sha256
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import msgspec

from harness.system.errors import HistoryError

CERTIFICATE = "certificate.json"
"""The name of the file in its folder."""
VersionOfCertificate = Literal[1]

Tone = Literal["good", "bad", "open"]
"""Whether all was shown, something is violated, or something is left undecided."""
Verdict = Literal["pass", "fail", "unknown", "vacuous", "not-claimed"]
Agreement = Literal["agrees", "differs", "silent"]
"""What the second judge says of the first one's verdict; `silent`: it could not judge."""


class _Piece(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the document: a field that does not exist is an error."""


class SealedFile(_Piece, frozen=True, kw_only=True):
    """One file with its digest; `file` is relative to the certificate's folder, of a subject to where it was run."""

    file: str
    sha256: str
    bytes: int


class SubjectOfCertificate(_Piece, frozen=True, kw_only=True):
    """What was judged, so that a reader can tell whether it is what they have."""

    kind: Literal["lookup", "operator", "pipeline", "protocol"]
    name: str
    """Its name in the command: `shop:lookup`, `job.toml`, a command line."""
    about: str
    files: list[SealedFile]
    """The files of the subject itself."""
    facts: dict[str, str] = {}
    """What else tells it from others: versions, settings, claims."""
    expected_from: list[str] = []
    """Where the expected values came from, one sentence each."""


class CheckRow(_Piece, frozen=True, kw_only=True):
    """One invariant (or rule of a protocol) under one family of faults: in how many runs it held, or did not.

    A run with faults of two families is counted under both.
    """

    check: str
    about: str
    family: str
    runs: int
    passed: int
    violations: int
    vacuous: int
    unknown: int = 0
    not_claimed: int = 0


class SecondWord(_Piece, frozen=True, kw_only=True):
    """What the second judge said, which shares no code with the first."""

    judge: str
    sha256: str
    """The digest of the second judge's own file."""
    judged: int
    """The runs that it judged."""
    agreed: int
    differs: list[str] = []
    """A sentence for each run on which the judges differ."""
    silent: int = 0
    """The runs that it could not judge."""
    why_silent: str = ""


class CertifiedRun(_Piece, frozen=True, kw_only=True):
    """One run, or one conversation of a protocol."""

    name: str
    """The scenario, or the conversation."""
    seed: int
    families: list[str]
    """The families of its faults."""
    verdict: Verdict
    holds: bool
    """Whether it passed, and no pitfall makes it fail."""
    sentence: str
    """What was found."""
    checks: dict[str, Verdict]
    pitfalls: list[str] = []
    """Mistakes in the use of asynchronous lookups; each makes a run not hold."""
    second: Agreement = "silent"
    scenario: SealedFile | None = None
    history: SealedFile | None = None
    judgement: SealedFile | None = None
    """The verdict in full: every anomaly with the events that show it."""
    again: str = ""
    """The command that repeats it."""
    paste: str = ""
    """The transcript of a conversation that failed and its lines, to be pasted into the program; empty if it passed."""


class Certificate(_Piece, frozen=True, kw_only=True):
    """The whole file."""

    schema_version: VersionOfCertificate
    tone: Tone
    word: str
    sentence: str
    cause: str
    """The first run that does not hold, in one sentence; empty: all hold."""
    subject: SubjectOfCertificate
    profile: str
    profile_about: str
    level: str
    world: list[str]
    versions: dict[str, str]
    made_at: str
    took_s: float
    asked: int
    """How many runs the profile has; `runs` are those that were made."""
    rows: list[CheckRow]
    runs: list[CertifiedRun]
    not_shown: list[str]
    """What the certificate does not show, in words."""
    second: SecondWord
    digest: str
    """A SHA-256 over the names and digests of all files of the runs."""
    again: str
    """The command that makes the certificate again."""
    seal: str = ""
    """A SHA-256 of all the rest of this document."""


def sealed_file(path: Path, *, below: Path) -> SealedFile:
    """The file at `path`, named relative to the folder `below`."""
    with path.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    return SealedFile(file=path.relative_to(below).as_posix(), sha256=digest, bytes=path.stat().st_size)


def beside_certificate(file: SealedFile, folder: Path) -> Path | None:
    """Where the file lies, below the certificate's folder; None: it names a place outside of that."""
    place = PurePosixPath(file.file)
    return None if place.is_absolute() or ".." in place.parts else folder / place


def digest_of_runs(runs: list[CertifiedRun]) -> str:
    """One digest for all histories, verdicts and scenarios, in the order of the runs."""
    hashed = sha256()
    for run in runs:
        for file in (run.scenario, run.history, run.judgement):
            if file is not None:
                hashed.update(f"{file.sha256}  {file.file}\n".encode())
    return hashed.hexdigest()


def seal_of(certificate: Certificate) -> str:
    """The seal that the certificate should have."""
    plain: dict[str, Any] = msgspec.to_builtins(certificate)
    del plain["seal"]
    return sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def sealed(certificate: Certificate) -> Certificate:
    """The certificate with its seal."""
    return msgspec.structs.replace(certificate, seal=seal_of(certificate))


def certificate_text(certificate: Certificate) -> str:
    """The file's text: indented, ASCII only, so that no payload can send control characters to a terminal."""
    plain = msgspec.to_builtins(certificate)
    return json.dumps(plain, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def load_certificate(path: Path) -> Certificate:
    """Reads a certificate strictly. Raises HistoryError if it cannot be read by this version."""
    fix = f"name the {CERTIFICATE} that `floodmark certify` wrote, or its folder"
    try:
        content = path.read_bytes()
        version = msgspec.json.decode(content, type=dict[str, Any]).get("schema_version")
    except OSError as error:
        raise HistoryError(f"{path} cannot be read: {error.strerror or error}", fix=fix) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HistoryError(f"{path} is no certificate: {error}", fix=fix) from error
    if version != 1:
        message = f"{path} is no certificate of version 1: its `schema_version` is {version!r}"
        raise HistoryError(message, fix="use the version of Floodmark that wrote it, or certify again")
    try:
        return msgspec.json.decode(content, type=Certificate)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HistoryError(f"{path} is no certificate of version 1: {error}", fix=fix) from error


def schema_of_certificates() -> str:
    """The JSON Schema, as shipped in `reports/schemas/certificate.v1.json`."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Floodmark certificate, version 1",
        **msgspec.json.schema(Certificate),
    }
    return json.dumps(schema, indent=2) + "\n"
