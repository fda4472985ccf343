"""`floodmark shrink` and `floodmark replay`: what they repeat, what they refuse, and with which exit code."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.explore.drawing import draw_scenario
from harness.explore.find import Find, load_find
from harness.scenario.file import loads
from harness.system.errors import Exit
from tools.cases import each, in_sweep_after

SMALL = [
    "--set", "workload.records=20", "--set", "workload.checkpoint_every=6",
    "--set", "expects.records=40", "--set", "expects.checkpoints=3",
]  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved find, and the report of a run of it."""
    place = tmp_path_factory.mktemp("made")
    find = Find(scenario=draw_scenario(0), seed=0, mutant="offset-one-late", invariant="V10", kind="skipped")
    file = find.save(place / "found")
    assert main(["run", str(file), "--report", str(place / "report"), "--quiet"]) == Exit.HOLD
    return place


@pytest.fixture
def found(made: Path) -> Path:
    (file,) = (made / "found").iterdir()
    return file


def test_a_find_runs_with_its_own_seed_system_and_level(
    found: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["run", str(found), "--quiet"])

    assert code == Exit.HOLD  # a planted defect that is convicted
    assert "shown    V10 skipped in 1 of 1 runs" in capsys.readouterr().out


def test_the_runs_of_a_find_have_seeds_from_its_own_on(
    found: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["run", str(found), "--runs", "2", "--jobs", "1", "--quiet", "--report", "two"])

    seeds = [run["seed"] for run in json.loads(Path("two/run.json").read_text(encoding="utf-8"))["counted"]]
    assert seeds == [0, 1]
    assert "of 2 runs" in capsys.readouterr().out


@pytest.mark.parametrize("named", ["", "run.json", "runs", "history"])
def test_a_report_is_repeated_from_itself_alone(
    made: Path, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report = made / "report"
    histories = list(report.glob("runs/*/history.jsonl"))
    target = {"runs": histories[0].parent, "history": histories[0]}.get(named, report / named)

    code = main(["replay", str(target), "--quiet"])

    assert code == Exit.HOLD
    assert "the same history, byte for byte" in capsys.readouterr().out


def test_another_history_than_the_reports_is_said_and_undecided(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = shutil.copytree(made / "report", tmp_path / "changed")
    document = json.loads((report / "run.json").read_text(encoding="utf-8"))
    document["runs"][0]["seed"] = 1
    document["runs"][0]["versions"]["floodmark"] = "0.0.1"
    (report / "run.json").write_text(json.dumps(document), encoding="utf-8")

    code = main(["replay", str(report), "--quiet"])

    told = capsys.readouterr()
    assert code == Exit.UNDECIDED
    assert "another history than the report's" in told.out
    assert "other versions: floodmark 0.0.1" in told.err


def test_the_last_failed_report_is_repeated(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(made / "report", Path("reports/out/run-1"))

    assert main(["replay", "--last-failed", "--quiet"]) == Exit.HOLD
    assert "byte for byte" in capsys.readouterr().out


def test_a_find_is_replayed(found: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(found), "--quiet"]) == Exit.HOLD
    assert "V10 skipped: yes, as its file says" in capsys.readouterr().out


LOOKUPS_OF_FIND = """\
async def right(record, pool):
    return [{"name": "right"}]


async def wrong(record, pool):
    return [{"name": "wrong"}]


def stated(record, rows):
    return [{"name": "right"}]
"""


@pytest.fixture
def wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A saved find of a user's lookup, in a folder with a right one beside it."""
    (tmp_path / "of_find.py").write_text(LOOKUPS_OF_FIND)
    monkeypatch.syspath_prepend(tmp_path)
    text = (
        "scenario: few\nabout: A few lookups.\noperator: {mode: ordered}\n"
        "workload: {records: 4, subtasks: 1}\ndecisive: [V8]\n"
    )
    find = Find(
        scenario=loads(text),
        seed=3,
        sut="of_find:wrong",
        expected="of_find:stated",
        invariant="V8",
        kind="wrong-value",
    )
    yield find.save(tmp_path / "found")
    sys.modules.pop("of_find", None)  # the next test has one of its own


@pytest.mark.parametrize(
    ("place", "command"),
    in_sweep_after(
        3,
        [
            ("project", "run"),
            ("environment", "replay"),
            ("project", "shrink"),
            ("environment", "run"),
            ("project", "replay"),
            ("environment", "shrink"),
        ],
    ),
)
def test_a_find_shows_what_it_found_whatever_project_and_environment_say_h1(
    wrong: Path, monkeypatch: pytest.MonkeyPatch, place: str, command: str
) -> None:
    other = {
        "sut": "of_find:right",
        "expected": "none",
        "seed": "9",
        "level": "live",
        "set": "workload.records=1",
    }
    if place == "project":
        lines = [f"{name} = {value!r}" for name, value in other.items() if name not in {"seed", "set"}]
        lines += ["seed = 9", "set = ['workload.records=1']", "runner = 'stateful'", "tag = ['gate']"]
        Path("pyproject.toml").write_text("\n".join(["[tool.floodmark]", *lines]))
    for name, value in other.items() if place == "environment" else ():
        monkeypatch.setenv(f"FLOODMARK_{name.upper()}", value)

    assert main([command, str(wrong), "--quiet"]) == Exit.VIOLATION


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("command", "options", "says", "code"),
    [
        ("run", ["--sut", "of_find:right"], "--sut of_find:right in place of of_find:wrong", Exit.UNDECIDED),
        ("run", ["--expected", "none"], "--expected none in place of of_find:stated", Exit.UNDECIDED),
        ("run", ["--sut", "reference"], "--sut reference in place of of_find:wrong", Exit.UNDECIDED),
        (
            "run",
            ["--seed", "4", "--set", "workload.records=5"],
            "--seed 4 in place of 3, --set",
            Exit.VIOLATION,
        ),
        ("shrink", ["--sut", "of_find:right"], "--sut of_find:right in place of", Exit.UNDECIDED),
        ("replay", ["--seed", "4"], "--seed 4 in place of 3", Exit.VIOLATION),
    ],
)
def test_an_option_that_differs_from_the_find_is_named_in_the_first_line_h1(
    wrong: Path, capsys: pytest.CaptureFixture[str], command: str, options: list[str], says: str, code: Exit
) -> None:
    assert main([command, str(wrong), *options, "--quiet"]) == code
    assert says in capsys.readouterr().out.partition("\n")[0]


@pytest.mark.sweep
def test_the_command_that_repeats_a_find_names_no_difference_h1(
    wrong: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["run", str(wrong), "--quiet", "--report", "first"])
    again = json.loads(Path("first/run.json").read_text(encoding="utf-8"))["runs"][0]["again"]
    capsys.readouterr()

    assert main([*again.split()[1:], "--quiet"]) == Exit.VIOLATION
    assert "in place of" not in capsys.readouterr().out


def test_one_find_of_several_that_is_not_shown_keeps_the_command_from_0_h1(
    found: Path, wrong: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The planted defect is convicted, which is as it should be; the mended function shows nothing."""
    wrong.parent.with_name("of_find.py").write_text(LOOKUPS_OF_FIND.replace('"wrong"', '"right"'))

    assert main(["run", str(found), str(wrong), "--quiet"]) == Exit.UNDECIDED
    assert "remove `shows` from the file" in capsys.readouterr().err


@each("command", ["shrink", "replay"])
@each(
    ("target", "says"),
    [
        ("nowhere", "there is no run, report or saved find nowhere"),
        ("empty", "no run.json"),
        ("rubbish", "is not a run document of schema version 1"),
        ("older", "is not a run document of schema version 1"),
        ("plain.yaml", "plain.yaml"),
    ],
)
def test_what_cannot_be_repeated_is_refused_with_one_sentence(
    command: str, target: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty").mkdir(exist_ok=True)
    for name, text in (("rubbish", "{"), ("older", '{"schema_version": 0, "runs": []}')):
        Path(name).mkdir(exist_ok=True)
        (Path(name) / "run.json").write_text(text, encoding="utf-8")

    code = main([command, target])

    told = capsys.readouterr().err
    assert code == Exit.USAGE
    assert says in told
    assert "Traceback" not in told


def test_a_scenario_that_does_not_fail_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["shrink", "calm", "--seed", "1"])

    assert code == Exit.USAGE
    assert "does not fail at level sim" in capsys.readouterr().err


@pytest.mark.sweep
def test_a_report_is_shrunk_to_a_file_that_shows_the_same(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["shrink", str(made / "report"), "--verbose"])

    told = capsys.readouterr()
    (file,) = Path("found").iterdir()
    assert code == Exit.VIOLATION
    assert load_find(file).shows == "V10 skipped"
    assert f"again    floodmark run {file}" in told.out
    steps = [line for line in told.err.splitlines() if line.startswith(("smaller  ", "no       "))]
    assert f"in {len(steps)} runs" in told.out


def test_a_budget_that_is_used_up_keeps_the_smallest_so_far(
    found: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["shrink", str(found), "--budget", "0.001", "--quiet", "--found", "small"])

    (file,) = Path("small").iterdir()
    assert code == Exit.VIOLATION
    assert load_find(file).shows == "V10 skipped"
    assert "in 0 runs" in capsys.readouterr().out


def test_neither_or_both_of_a_name_and_the_last_failed_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay"]) == Exit.USAGE
    assert main(["replay", "x", "--last-failed"]) == Exit.USAGE
    assert "or give --last-failed" in capsys.readouterr().err


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a campaign in which each run convicts a planted defect."""
    report = tmp_path_factory.mktemp("campaign") / "report"
    words = ["run", "calm", "--level", "sim", "--seed", "7", "--runs", "13", "--jobs", "1", "--quiet", *SMALL]
    assert main([*words, "--mutant", "watermarks-at-once", "--report", str(report)]) == Exit.HOLD
    return report


@pytest.mark.sweep
def test_of_a_campaign_each_failed_run_is_repeated_not_only_the_one_shown(
    campaign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(campaign, "reports/out/first")

    assert main(["replay", "--last-failed", "--jobs", "1", "--quiet", "--report", "again"]) == Exit.HOLD

    document = json.loads(Path("again/run.json").read_text("utf-8"))
    assert [run["seed"] for run in document["counted"]] == list(range(7, 20))
    assert "same     13 of 13 runs" in capsys.readouterr().out


@pytest.mark.sweep
def test_a_campaign_is_replayed_whole_and_a_run_of_another_digest_is_named(
    campaign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(campaign, "first")
    file = Path("first/run.json")
    document = json.loads(file.read_text("utf-8"))
    document["counted"][5]["digest"] = "0" * 64
    file.write_text(json.dumps(document), "utf-8")

    assert main(["replay", "first", "--jobs", "1", "--quiet"]) == Exit.UNDECIDED

    told = capsys.readouterr().out
    assert "OTHER    calm seed 12: another history than the report's" in told
    assert "same     12 of 13 runs" in told
