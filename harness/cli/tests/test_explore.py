"""`floodmark explore`: exit codes, what is refused before anything runs, and that nothing found is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.engine.level import Stop
from harness.explore import exploration
from harness.explore.drawing import draw_scenario
from harness.explore.exploration import CORPUS_VERSION, Explored
from harness.scenario.file import loads
from harness.system.errors import Exit
from tools.cases import each

FEW = ["explore", "--seed", "3", "--jobs", "1", "--quiet"]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.sweep
def test_without_a_violation_it_ends_with_0_and_tells_its_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FEW, "--runs", "1"]) == Exit.HOLD

    told = capsys.readouterr().out
    assert "runs     1 in" in told
    assert "found    nothing; seed 3" in told


@pytest.mark.sweep
def test_a_violation_ends_it_with_1_and_a_file_that_shows_it_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*FEW, "--mutant", "settles-twice", "--only", "V8", "--format", "json"]) == Exit.VIOLATION

    (found,) = json.loads(capsys.readouterr().out)["violations"]
    assert found["invariant"] == "V8"
    assert found["kind"] == "duplicate"
    assert [str(file) for file in Path("found").iterdir()] == [found["file"]]
    assert main(["run", found["file"], "--format", "json"]) == Exit.HOLD  # it detects the planted defect
    assert "V8 duplicate in 1 of 1 runs" in capsys.readouterr().err


def test_what_a_seed_draws_can_be_printed_and_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "--print", "--seed", "6"]) == Exit.HOLD

    text = capsys.readouterr().out
    Path("random-6.yaml").write_text(text, "utf-8")
    assert text.startswith("# floodmark run random-6.yaml --level sim --seed 6\n")
    assert loads(text) == draw_scenario(6)


@pytest.mark.sweep
def test_going_on_groups_what_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [*FEW, "--mutant", "settles-twice", "--keep-going", "--runs", "6", "--only", "V8,V9"]

    assert main([*asked, "--format", "json"]) == Exit.VIOLATION

    groups = json.loads(capsys.readouterr().out)["violations"]
    kinds = [(group["invariant"], group["kind"], group["shape"]) for group in groups]
    assert len(kinds) == len(dict.fromkeys(kinds)) >= 1
    assert sum(group["times"] + group["not_shrunk"] for group in groups) > 1


def test_rubbish_and_an_older_version_in_the_corpus_are_named_and_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("corpus").mkdir()
    Path("corpus/rubbish.yaml").write_bytes(b"\xff\xfe")
    Path("corpus/older.yaml").write_text(f"# floodmark corpus {CORPUS_VERSION - 1}, seed 1\n", "utf-8")

    assert main([*FEW, "--runs", "2", "--corpus", "corpus"]) == Exit.HOLD

    told = capsys.readouterr().err
    assert "corpus/rubbish.yaml is skipped: it is no text in UTF-8" in told
    assert "corpus/older.yaml is skipped: it is of version 0" in told
    assert Path("corpus/rubbish.yaml").read_bytes() == b"\xff\xfe"
    assert len(list(Path("corpus").glob("*.yaml"))) > 2


def test_a_corpus_that_cannot_be_written_ends_it_with_11(capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").write_text("", "utf-8")

    assert main([*FEW, "--runs", "2", "--corpus", "file/corpus"]) == Exit.ENVIRONMENT

    told = capsys.readouterr()
    assert "the corpus cannot be written to file/corpus" in told.err
    assert "runs     1 in" in told.out


@pytest.mark.sweep
def test_a_find_that_cannot_be_written_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").write_text("", "utf-8")

    asked = [*FEW, "--mutant", "settles-twice", "--found", "file/found"]
    assert main(asked) == Exit.VIOLATION  # beats the environment

    told = capsys.readouterr()
    assert "no file could be written, so here it is:" in told.out
    assert "\nscenario: " in told.out
    assert "the find cannot be saved as file/found" in told.err


def test_what_was_found_is_told_after_an_internal_error_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object, explored: Explored, **__: object) -> None:
        explored.runs = 7
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(exploration, "explore", breaks)

    assert main([*FEW, "--runs", "2"]) == Exit.INTERNAL

    told = capsys.readouterr()
    assert "runs     7 in" in told.out
    assert "RuntimeError: a mistake of ours" in told.err


def test_an_interruption_reports_what_there_is_and_ends_with_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def stopped() -> Iterator[Stop]:
        stop = Stop()
        stop.set()
        yield stop

    monkeypatch.setattr("harness.cli.run_campaign.stop_on_interrupt", stopped)

    assert main([*FEW, "--runs", "2"]) == Exit.INTERRUPTED
    assert "found    nothing before it was interrupted" in capsys.readouterr().out


@each(
    ("words", "code", "why"),
    [
        (["--budget", "soon"], Exit.USAGE, "is not a time greater than 0"),
        (["--budget", "0s"], Exit.USAGE, "is not a time greater than 0"),
        (["--only", "V99"], Exit.USAGE, "--only: there is no 'V99'"),
        (["--mutant", "no-such"], Exit.USAGE, "there is no mutant"),
        (["--mutant", "tools.defects:recorder_drops"], Exit.USAGE, "no run shows it"),
        (["--sut", "no_such_module:look"], Exit.USAGE, "no_such_module"),
        (["no-such-scenario"], Exit.USAGE, "no-such-scenario"),
        (
            ["--job", "job.toml", "--mutant", "x"],
            Exit.USAGE,
            "--mutant is for an operator, and --job names a job",
        ),
        (["--job", "no.toml"], Exit.USAGE, "there is no job file no.toml"),
        (["failover"], Exit.NOTHING_RAN, "none of the named scenarios runs at level sim"),
    ],
)
def test_a_mistake_is_told_before_anything_runs(
    words: list[str], code: Exit, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*FEW, "--runs", "1", *words]) == code

    assert why in capsys.readouterr().err
