"""`floodmark check`: which files, which invariants, how much is told; the rest is in `test_check.py`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import zstandard
from click.testing import CliRunner, Result

from harness.cli import judging
from harness.cli.check import check
from harness.cli.main import main
from harness.history.convert import convert
from harness.history.invariants import INVARIANTS
from harness.judge.checkers.outside.judge import judge_history
from harness.system.errors import Exit, UsageError
from tools.cases import each

HEADER = {"history": 1, "operator": {"mode": "ordered", "capacity": 9, "timeout_ms": 0}}
START = {"n": 1, "t": 0, "k": "start", "s": 0, "a": 1, "from": None, "pos": 0}


def text(*events: dict[str, Any], **header: Any) -> bytes:
    lines: Sequence[Any] = [{**HEADER, **header}, START]
    numbered = [{"n": n, "t": n, "s": 0, "a": 1, **event} for n, event in enumerate(events, start=2)]
    return b"".join(json.dumps(line).encode() + b"\n" for line in (*lines, *numbered))


def lookup(record: int, pos: int) -> list[dict[str, Any]]:
    res = {"k": "res", "id": record, "try": 1, "r": "ok", "final": True, "v": ["x"]}
    return [{"k": "in", "pos": pos, "id": record}, {"k": "call", "id": record, "try": 1}, res]


def out(record: int) -> dict[str, Any]:
    return {"k": "out", "id": record, "j": 0, "v": "x"}


OVER: list[dict[str, Any]] = [{"k": "end"}, {"k": "ended"}]
SWAPPED = [*lookup(1, 0), *lookup(2, 1), out(2), out(1), *OVER]
"""Only V1 convicts."""


def checked(*words: str, given: bytes = b"", **runner: Any) -> Result:
    return CliRunner(**runner).invoke(check, words, input=given)


def verdicts(result: Result) -> dict[str, str]:
    document = json.loads(result.stdout)
    return {verdict["invariant"]: verdict["verdict"] for verdict in document["invariants"]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "swapped.jsonl").write_bytes(text(*SWAPPED))
    (tmp_path / "calm.jsonl").write_bytes(text(*lookup(1, 0), out(1), *OVER))
    return tmp_path


@pytest.mark.parametrize(
    "packed", [bytes, gzip.compress, zstandard.ZstdCompressor().compress], ids=["plain", "gz", "zst"]
)
def test_standard_input_is_judged_like_a_file_however_it_is_packed(packed: Callable[[bytes], bytes]) -> None:
    result = checked("-", given=packed(text(*SWAPPED)))

    assert result.exit_code == Exit.VIOLATION
    assert result.stdout.startswith("FAIL  <stdin>\n")
    assert "reordered" in result.stdout


@pytest.mark.parametrize("form", [".arrow", ".parquet"])
def test_columns_are_judged_from_a_file_and_from_standard_input(folder: Path, form: str) -> None:
    pytest.importorskip("pyarrow")
    columns = folder / f"swapped{form}"
    convert(folder / "swapped.jsonl", columns)

    named = checked(columns.name, "--format", "json")
    given = checked("-", "--format", "json", given=columns.read_bytes())

    assert named.stdout == given.stdout == checked("swapped.jsonl", "--format", "json").stdout
    assert (named.exit_code, given.exit_code) == (Exit.VIOLATION, Exit.VIOLATION)


def test_a_project_s_settings_are_the_defaults_of_check_too(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pyproject.toml").write_text("[tool.floodmark]\nformat = 'json'\njobs = 0\n")

    refused = main(["check", "calm.jsonl"])
    judged = main(["check", "calm.jsonl", "--jobs", "1"])

    assert (refused, judged) == (Exit.USAGE, Exit.HOLD)
    assert json.loads(capsys.readouterr().out)["verdict"] == "pass"


def test_a_quoted_pattern_names_files_in_the_order_of_their_names() -> None:
    result = checked("*.jsonl", "calm.jsonl", "--format", "json")

    said = [json.loads(line)["verdict"] for line in result.stdout.splitlines()]
    assert result.exit_code == Exit.VIOLATION
    assert said == ["pass", "fail", "pass"]


def test_a_pattern_that_matches_nothing_is_bad_usage_and_nothing_is_judged() -> None:
    result = checked("calm.jsonl", "runs/*.jsonl")

    assert isinstance(result.exception, UsageError)
    assert "no file matches runs/*.jsonl" in str(result.exception)
    assert not result.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], list(INVARIANTS)),
        (["--invariant", "V8"], ["V8"]),
        (["--invariant", "V10,V8", "--invariant", "V1, V8"], ["V1", "V8", "V10"]),
    ],
)
def test_only_the_invariants_asked_for_are_judged_in_the_order_of_the_page(
    words: list[str], expected: list[str]
) -> None:
    result = checked("calm.jsonl", "--format", "json", *words)

    assert list(verdicts(result)) == expected


def test_the_environment_may_name_the_invariants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOODMARK_INVARIANT", "V8 V1,V2")

    assert list(verdicts(checked("calm.jsonl", "--format", "json"))) == ["V1", "V2", "V8"]


@each(
    ("asked", "code"),
    [
        ("V1", Exit.VIOLATION),
        ("V8", Exit.HOLD),
        ("V8,V2", Exit.HOLD),
        ("V2", Exit.UNDECIDED),
        ("V4,V10", Exit.UNDECIDED),
        ("V23", Exit.UNDECIDED),
    ],
)
def test_the_exit_code_is_that_of_the_invariants_asked_for(asked: str, code: Exit) -> None:
    assert checked("swapped.jsonl", "--invariant", asked).exit_code == code


@pytest.mark.parametrize(
    ("asked", "code"), [("V8", Exit.HOLD), ("V4", Exit.UNDECIDED), ("V8,V4", Exit.UNDECIDED), (None, 10)]
)
def test_what_is_decisive_counts_only_if_it_was_asked_for(folder: Path, asked: str | None, code: int) -> None:
    (folder / "decided.jsonl").write_bytes(text(*lookup(1, 0), out(1), *OVER, decisive=["V4"]))

    result = checked("decided.jsonl", *(["--invariant", asked] if asked else []))

    assert result.exit_code == code


@each(
    ("asked", "says"),
    [
        ("V99", "there is no 'V99'"),
        ("v8", "did you mean 'V8'?"),
        ("", "there is no ''"),
        ("V8,", "there is no ''"),
        ("V17", "it is reported, not judged"),
        ("V22", "probe"),
    ],
)
def test_an_invariant_that_no_history_can_show_is_bad_usage(asked: str, says: str) -> None:
    result = checked("calm.jsonl", "--invariant", asked)

    assert isinstance(result.exception, UsageError)
    assert says in str(result.exception)
    assert "floodmark list invariants" in result.exception.fix


@pytest.mark.parametrize("form", ["pretty", "markdown", "github"])
def test_a_verdict_over_fewer_invariants_says_so(form: str) -> None:
    some = checked("calm.jsonl", "--format", form, "--invariant", "V8,V1").stdout
    all_of_them = checked("calm.jsonl", "--format", form).stdout

    assert "Checked only V1 V8" in some
    assert "Checked only" not in all_of_them


@pytest.mark.parametrize("form", ["pretty", "markdown", "github"])
def test_a_failure_is_explained_and_what_still_holds_is_told(form: str) -> None:
    told = checked("swapped.jsonl", "--format", form).stdout

    positions = [
        told.index(words) for words in ("reordered", "Let:", "Then:", "a contradiction", "Still holds:")
    ]
    assert positions == sorted(positions)
    assert "Guarantee:" in told


@pytest.mark.parametrize(
    ("form", "start"), [("pretty", "       phantom"), ("markdown", "| | phantom"), ("github", "::error")]
)
def test_ten_anomalies_are_told_in_full_and_the_rest_is_counted(folder: Path, form: str, start: str) -> None:
    (folder / "ghosts.jsonl").write_bytes(text(*(out(record) for record in range(150))))

    told = checked("ghosts.jsonl", "--format", form, "--invariant", "V8").stdout
    in_full = [line for line in told.splitlines() if line.startswith(start) and "found in all" not in line]

    assert len(in_full) == 10
    assert told.count("Let:") == 10
    assert "150 found in all; not explained: 90 phantom, 50 that the checker only counted" in told


def test_json_lists_a_hundred_and_counts_the_rest(folder: Path) -> None:
    (folder / "ghosts.jsonl").write_bytes(text(*(out(record) for record in range(150))))

    document = json.loads(checked("ghosts.jsonl", "--format", "json", "--invariant", "V8").stdout)

    (v8,) = document["invariants"]
    assert (len(v8["anomalies"]), v8["omitted"]) == (100, 50)
    assert ["explanation" in anomaly for anomaly in v8["anomalies"]] == [True] * 10 + [False] * 90


def test_a_cut_last_line_is_warned_of_and_the_rest_is_judged(folder: Path) -> None:
    (folder / "cut.jsonl").write_bytes(text(*SWAPPED) + b'{"n":99,"k"')

    for form in ("pretty", "json", "markdown", "github"):
        result = checked("cut.jsonl", "--format", form)
        assert result.exit_code == Exit.VIOLATION
        assert "line 13, the last one, is cut off" in result.stdout


def test_a_history_of_another_version_is_told_which_versions_are_read(folder: Path) -> None:
    (folder / "later.jsonl").write_bytes(text(history=2))

    result = checked("later.jsonl")

    assert result.exit_code == Exit.USAGE
    assert "line 1: the history is of version 2; only version 1 can be read" in result.stdout


def test_what_fails_while_it_is_read_is_a_complaint_and_the_others_are_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest = judge_history

    def unlucky(path: Path, **rest: Any) -> Any:
        if path.name == "calm.jsonl":
            raise UsageError("cannot read calm.jsonl: Input/output error", fix="mend the disk")
        return honest(path, **rest)

    monkeypatch.setattr(judging, "judge_history", unlucky)

    alone = checked("calm.jsonl")
    both = checked("calm.jsonl", "swapped.jsonl")

    assert (alone.exit_code, alone.stdout) == (Exit.USAGE, "")
    assert "calm.jsonl: cannot read calm.jsonl: Input/output error\n  fix: mend the disk" in alone.stderr
    assert both.exit_code == Exit.VIOLATION
    assert both.stdout.startswith("FAIL  swapped.jsonl")


def test_verbose_tells_of_the_reading_on_standard_error_only() -> None:
    told = checked("calm.jsonl", "--verbose", "--format", "json")
    quiet = checked("calm.jsonl", "--verbose", "--quiet", "--format", "json")

    assert "100 % of" in told.stderr
    assert "calm.jsonl" in told.stderr
    assert quiet.stderr == ""
    assert told.stdout == quiet.stdout


def test_letters_that_the_terminal_lacks_are_spelt_out(folder: Path) -> None:
    (folder / "grüße.jsonl").write_bytes(text(out(1), out(2)).replace(b'"id": 1', '"id": "käse"'.encode()))

    result = checked("grüße.jsonl", charset="ascii")

    assert result.exit_code == Exit.VIOLATION
    assert "k\\xe4se" in result.stdout


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"NaN", Exit.USAGE),
        (b"Infinity", Exit.USAGE),
        (b"1e999", Exit.VIOLATION),
        (b'{"a":1,"a":1}', Exit.USAGE),
        (b'"\xff"', Exit.USAGE),
        (b'"\\ud800"', Exit.VIOLATION),
        (b'"\x00"', Exit.USAGE),
        (b"[" * 100_000 + b"]" * 100_000, Exit.USAGE),
        (b"1" * 5000, Exit.VIOLATION),
        (b"1" * 10_000_000, Exit.USAGE),
        (b"[" + b"0," * 100_000 + b"0]", Exit.VIOLATION),
        (b'"' + b"x" * 1_000_000 + b'"', Exit.VIOLATION),
    ],
    ids=[
        "nan",
        "infinity",
        "beyond-a-double",
        "key-twice",
        "no-utf-8",
        "half-a-pair",
        "nul",
        "deep",
        "digits",
        "too-many-digits",
        "long-list",
        "long",
    ],
)
@pytest.mark.parametrize("form", ["pretty", "json"])
def test_a_hostile_value_is_judged_or_refused(folder: Path, form: str, value: bytes, code: Exit) -> None:
    (folder / "hostile.jsonl").write_bytes(text(out(1)).replace(b'"v": "x"', b'"v": ' + value))

    result = checked("hostile.jsonl", "--format", form)

    assert result.exit_code == code
    assert result.stdout.lower().startswith(
        ("fail", "malformed", '{"verdict":"fail"', '{"verdict":"malformed"')
    )
    assert len(result.stdout) < 50_000


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", b"\x00" * 99, b"\xef\xbb\xbf{}", "{}".encode("utf-16"), b"{" * 9999]
)
def test_what_is_no_history_is_malformed(folder: Path, content: bytes) -> None:
    (folder / "none.jsonl").write_bytes(content)

    result = checked("none.jsonl", "--format", "json")

    assert result.exit_code == Exit.USAGE
    assert json.loads(result.stdout)["breaches"]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_damaged_stream_is_malformed(folder: Path, suffix: str) -> None:
    pack = gzip.compress if suffix == ".gz" else zstandard.ZstdCompressor().compress
    (folder / f"cut.jsonl{suffix}").write_bytes(pack(text(*SWAPPED))[:-9])

    result = checked(f"cut.jsonl{suffix}")

    assert result.exit_code == Exit.USAGE
    assert result.stdout.startswith("MALFORMED")
