"""A certificate is judged again from its files alone: what was changed in them, or left out, is noticed and named."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from harness.conform.tests.small import make_certificate, small_certification
from harness.conform.verifying import verified
from harness.scenario.certificate import (
    Certificate,
    certificate_text,
    digest_of_runs,
    load_certificate,
    sealed,
    sealed_file,
)
from harness.scenario.file import load
from harness.system.errors import HistoryError
from tools.cases import each

KINDS = {"history": "history", "judgement": "verdict", "scenario": "scenario"}
"""What the problems call the file of a field."""
replace = msgspec.structs.replace


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Certificate, Path]:
    folder = tmp_path_factory.mktemp("certificate")
    return make_certificate(folder, small_certification()), folder


@pytest.fixture
def copied(made: tuple[Certificate, Path], tmp_path: Path) -> tuple[Certificate, Path]:
    certificate, folder = made
    shutil.copytree(folder, tmp_path / "copy")
    return certificate, tmp_path / "copy"


def test_the_reference_is_green_by_both_judges_and_verifies(made: tuple[Certificate, Path]) -> None:
    certificate, folder = made

    found = verified(certificate, folder)

    assert (certificate.word, certificate.second.agreed) == ("conformant", 2)
    assert (found.problems, found.judged, found.twice) == ((), 2, 2)


def test_two_certificates_of_one_seed_have_one_digest_of_their_histories(
    made: tuple[Certificate, Path], tmp_path: Path
) -> None:
    again = make_certificate(tmp_path, small_certification())

    assert [run.history for run in again.runs] == [run.history for run in made[0].runs]


def test_the_scenario_beside_a_certificate_can_be_run(made: tuple[Certificate, Path]) -> None:
    certificate, folder = made
    run = certificate.runs[0]
    assert run.scenario is not None

    assert load(folder / run.scenario.file).scenario == "small"


@pytest.mark.parametrize("kind", ["history", "judgement", "scenario"])
def test_one_changed_byte_is_noticed_and_its_file_is_named(
    copied: tuple[Certificate, Path], kind: str
) -> None:
    certificate, folder = copied
    file = getattr(certificate.runs[1], kind)
    content = bytearray((folder / file.file).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / file.file).write_bytes(content)

    problems = verified(certificate, folder).problems

    assert any(file.file in problem and "was changed" in problem for problem in problems)
    assert all("seed 2" in problem for problem in problems)


@pytest.mark.parametrize("kind", ["history", "judgement", "scenario"])
def test_a_missing_file_is_named(copied: tuple[Certificate, Path], kind: str) -> None:
    certificate, folder = copied
    file = getattr(certificate.runs[0], kind)
    (folder / file.file).unlink()

    assert f"{file.file} is missing" in " ".join(verified(certificate, folder).problems)


def forged(certificate: Certificate, folder: Path, lines: Callable[[list[str]], list[str]]) -> Certificate:
    """A certificate whose first history was altered, with all digests and the seal made to fit."""
    first = certificate.runs[0]
    assert first.history is not None
    path = folder / first.history.file
    told = gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)
    path.write_bytes(gzip.compress("".join(lines(told)).encode(), mtime=0))
    runs = [replace(first, history=sealed_file(path, below=folder)), *certificate.runs[1:]]
    return sealed(replace(certificate, runs=runs, digest=digest_of_runs(runs)))


def test_a_history_that_breaks_a_promise_is_noticed_although_all_digests_fit(
    copied: tuple[Certificate, Path],
) -> None:
    certificate, folder = copied

    def without_an_output(lines: list[str]) -> list[str]:
        at = next(n for n, line in enumerate(lines) if '"k":"out"' in line)
        kept = [json.loads(line) for line in (*lines[:at], *lines[at + 1 :])]
        return [json.dumps(line | {"n": n} if n else line) + "\n" for n, line in enumerate(kept)]

    problems = verified(forged(certificate, folder, without_an_output), folder).problems

    assert any("judged again it is fail" in problem for problem in problems)


def test_a_history_that_is_none_is_named(copied: tuple[Certificate, Path]) -> None:
    certificate, folder = copied

    problems = verified(forged(certificate, folder, lambda lines: lines[1:]), folder).problems

    assert any("no well-formed history" in problem for problem in problems)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"word": "not conformant"}, "its runs say 'conformant'"),
        ({"rows": []}, "its table does not follow from its runs"),
        ({"digest": "0"}, "its digest of all files"),
        ({"asked": 3}, "its runs say 'not decided'"),
        ({"cause": "none"}, "its cause"),
    ],
)
def test_a_head_that_does_not_follow_from_the_runs_is_noticed_although_the_seal_fits(
    made: tuple[Certificate, Path], changes: dict[str, object], told: str
) -> None:
    certificate, folder = made

    problems = verified(sealed(replace(certificate, **changes)), folder).problems

    assert any(told in problem for problem in problems)


def test_a_changed_word_in_the_document_breaks_its_seal(made: tuple[Certificate, Path]) -> None:
    certificate, folder = made

    problems = verified(replace(certificate, made_at="yesterday"), folder).problems

    assert problems == (
        "certificate.json was changed after it was written: its seal is not that of its content",
    )


@pytest.mark.parametrize("kind", ["history", "judgement", "scenario"])
def test_a_file_outside_of_the_folder_is_not_read(copied: tuple[Certificate, Path], kind: str) -> None:
    certificate, folder = copied
    first = certificate.runs[0]
    file = getattr(first, kind)
    (folder / file.file).rename(folder.parent / "secret")
    runs = [replace(first, **{kind: replace(file, file="../secret")}), *certificate.runs[1:]]

    found = verified(sealed(replace(certificate, runs=runs, digest=digest_of_runs(runs))), folder)

    assert found.problems == (
        f"small, seed 1: {KINDS[kind]} ../secret lies outside of the certificate's folder",
    )
    assert found.judged == (1 if kind == "history" else 2)


def test_a_run_that_is_said_to_hold_without_a_history_is_noticed(made: tuple[Certificate, Path]) -> None:
    certificate, folder = made
    runs = [replace(certificate.runs[0], history=None, second="silent"), *certificate.runs[1:]]

    problems = verified(sealed(replace(certificate, runs=runs, digest=digest_of_runs(runs))), folder).problems

    assert any("it is said to hold, and has no history" in problem for problem in problems)


def test_a_certificate_reads_back_as_it_was_written(made: tuple[Certificate, Path], tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(certificate_text(made[0]))

    assert load_certificate(tmp_path / "c.json") == made[0]


@each(
    ("content", "told"),
    [
        (b"\xff\x00rubbish", "is no certificate"),
        (b"[1]", "is no certificate"),
        (b"{}", "its `schema_version` is None"),
        (b'{"schema_version": 0}', "its `schema_version` is 0"),
        (b'{"schema_version": 1}', "is no certificate of version 1"),
        (b'{"schema_version": 1, "tone": "good"', "is no certificate"),
    ],
)
def test_what_is_no_certificate_of_this_version_is_told_with_exit_code_4(
    tmp_path: Path, content: bytes, told: str
) -> None:
    (tmp_path / "c.json").write_bytes(content)

    with pytest.raises(HistoryError, match=told.replace("`", ".")) as raised:
        load_certificate(tmp_path / "c.json")

    assert raised.value.exit_code == 4


def test_a_certificate_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="cannot be read: No such file"):
        load_certificate(tmp_path / "c.json")
