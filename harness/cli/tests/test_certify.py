"""`floodmark certify` and `floodmark verify`: files, words and exit codes, from the command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli.certifying import certificate_exit
from harness.cli.main import main
from harness.conform import profiles
from harness.conform.profiles import ChosenScenario, profile_named
from harness.conform.tests.small import SMALL
from harness.scenario.certificate import load_certificate
from harness.system.choices import Choices
from harness.system.errors import Exit
from reports.tests.certificate_sample import certificate


@pytest.fixture
def small_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each profile is one small scenario; the current folder is empty but for it."""
    (tmp_path / "small.yaml").write_text(SMALL)

    def small(name: str) -> profiles.CertificationProfile:
        return replace(profile_named(name), scenarios=(ChosenScenario(scenario="small.yaml"),))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(profiles, "profile_named", small)
    return tmp_path


def test_a_green_certificate_is_verified_until_a_byte_changes_and_never_overwritten(
    small_profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["certify", "--sut", "reference", "--report", "c", "-q"]

    assert main(words) == Exit.HOLD
    told = capsys.readouterr().out
    assert told.startswith("CONFORMANT  reference, profile operator\n")
    assert "again    floodmark certify --sut reference --profile operator --level sim\n" in told
    assert sorted(path.name for path in (small_profile / "c").iterdir()) == [
        "badge.svg", "certificate.json", "history", "index.html", "scenarios", "verdicts",
    ]  # fmt: skip

    assert main(["verify", "c", "-q"]) == Exit.HOLD
    assert "HOLDS" in capsys.readouterr().out

    badge = small_profile / "c" / "badge.svg"
    badge.write_text(badge.read_text().replace("conformant", "perfect"))
    assert main(["verify", "c/certificate.json", "-q", "--format", "json"]) == Exit.VIOLATION
    assert json.loads(capsys.readouterr().out)["problems"] == [
        "badge.svg is not the one that follows from certificate.json"
    ]

    assert main(words) == Exit.USAGE
    assert "c holds a certificate already" in capsys.readouterr().err


def test_any_other_byte_in_any_file_of_the_folder_is_noticed_and_its_file_is_named(
    small_profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["certify", "--sut", "reference", "--report", "c", "-q"])
    files = sorted(path for path in (small_profile / "c").rglob("*") if path.is_file())
    draw = Choices(1, "bytes to change")
    capsys.readouterr()

    assert len(files) == 6
    for file in files:
        whole = file.read_bytes()
        for _ in range(4):
            at, other = draw.between(0, len(whole) - 1), draw.between(1, 255)
            file.write_bytes(whole[:at] + bytes([whole[at] ^ other]) + whole[at + 1 :])
            code = main(["verify", "c", "-q"])
            told = "".join(capsys.readouterr())

            assert code in {Exit.VIOLATION, Exit.USAGE}, (file, at, other)
            assert file.name in told, (file, at, other, told)
        file.write_bytes(whole)
    assert main(["verify", "c", "-q"]) == Exit.HOLD


@pytest.mark.parametrize(("was", "is_now"), [(b": ", b":\t"), (b"{\n", b"{ ")])
def test_a_changed_space_in_the_certificate_is_named_though_its_content_is_the_same(
    small_profile: Path, capsys: pytest.CaptureFixture[str], was: bytes, is_now: bytes
) -> None:
    main(["certify", "--sut", "reference", "--report", "c", "-q"])
    path = small_profile / "c" / "certificate.json"
    path.write_bytes(path.read_bytes().replace(was, is_now, 1))

    assert main(["verify", "c", "-q"]) == Exit.VIOLATION
    assert "certificate.json was changed after it was written: its text" in capsys.readouterr().out


def test_a_planted_defect_is_not_conformant_and_the_cause_comes_first(
    small_profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "certify",
        "--sut",
        "reference",
        "--mutant",
        "tools.defects:crossed_replies",
        "--report",
        "c",
        "-q",
    ]

    assert main(words) == Exit.VIOLATION
    lines = capsys.readouterr().out.splitlines()

    assert lines[0].startswith("NOT CONFORMANT  tools.defects:crossed_replies")
    assert lines[1].startswith("cause    Output 0 of record ")
    assert load_certificate(small_profile / "c" / "certificate.json").tone == "bad"


FORGETFUL = """
seen = set()


async def lookup(record, pool):
    if record.key in seen:
        return []
    seen.add(record.key)
    return [await pool.fetch_one("SELECT name FROM customer WHERE k = %s", (record.key,))]
"""


def test_why_no_value_was_judged_is_the_cause_not_that_none_was(
    small_profile: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function that gives two answers for one key, which no scenario needs a fault to see."""
    (small_profile / "forgetful_of_certificates.py").write_text(FORGETFUL)
    monkeypatch.syspath_prepend(small_profile)
    words = ["certify", "--sut", "forgetful_of_certificates:lookup", "--report", "c", "-q"]

    assert main(words) == Exit.UNDECIDED
    assert load_certificate(small_profile / "c" / "certificate.json").cause.startswith(
        "The function is not deterministic, so its values are not judged: for key "
    )


def test_the_form_json_is_the_file_itself(small_profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["certify", "--sut", "reference", "--report", "c", "-q", "--format", "json"])

    assert capsys.readouterr().out == (small_profile / "c" / "certificate.json").read_text()


def test_a_full_disk_is_told_with_exit_code_11(
    small_profile: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "history")

    monkeypatch.setattr(shutil, "copyfileobj", full)

    assert main(["certify", "--sut", "reference", "--report", "c", "-q"]) == Exit.ENVIRONMENT
    assert "the certificate could not be written to c: No space left on device" in capsys.readouterr().err
    assert not (small_profile / "c" / "certificate.json").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["certify"], "--sut"),
        (["certify", "--sut", "refrence"], "did you mean 'reference'"),
        (["certify", "--sut", "no_such_module_at_all:lookup"], "no_such_module_at_all"),
        (["certify", "--sut", "no.toml"], "there is no job file no.toml"),
        (["certify", "--sut", "reference", "--profile", "moon"], "moon"),
        (["certify", "--sut", "reference", "--mutant", "no-such"], "no mutant called 'no-such'"),
        (["certify", "--sut", "reference", "--scenario", "clam"], "did you mean `calm`"),
        (["certify", "--sut", "reference", "--keep", "database"], "--keep database"),
        (["certify", "--sut", "reference", "--level", "live", "--world", "simulated"], "needs one"),
        (["verify"], "CERTIFICATE"),
        (["verify", "none.json"], "cannot be read: No such file"),
        (["verify", "small.yaml"], "is no certificate"),
    ],
)
def test_bad_usage_is_told_before_anything_starts(
    small_profile: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert main(words) == Exit.USAGE
    assert says in capsys.readouterr().err
    assert [path.name for path in small_profile.iterdir()] == ["small.yaml"]


@pytest.mark.parametrize(
    ("exit_code", "made"),
    [
        (Exit.HOLD, lambda: certificate_exit(certificate())),
        (Exit.VIOLATION, lambda: certificate_exit(certificate(bad=True), interrupted=True, failed=True)),
        (Exit.INTERRUPTED, lambda: certificate_exit(certificate(), interrupted=True)),
        (Exit.ENVIRONMENT, lambda: certificate_exit(certificate(), failed=True)),
    ],
)
def test_the_exit_code_takes_the_worst(exit_code: Exit, made: Callable[[], Exit]) -> None:
    assert made() is exit_code
