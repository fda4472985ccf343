"""A history in columns is explained as its text is."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.history.convert import convert
from harness.judge.checkers.judge import Malformed, judge_file
from harness.judge.explanation.contradiction import survey
from harness.judge.explanation.events import FileLines
from harness.judge.explanation.explain import explained_file
from tools.bench.regular_history import regular_header, regular_history, write_lines

pytest.importorskip("pyarrow")

CATALOGUE = sorted((Path(__file__).parents[2] / "checkers" / "tests" / "catalogue").rglob("*.jsonl"))
SHARES = 30
PARTS = [0, *(pytest.param(share, marks=pytest.mark.sweep) for share in range(1, SHARES, 3))]


@pytest.mark.parametrize("share", PARTS)
@pytest.mark.parametrize("form", [".arrow", ".parquet"])
def test_labelled_histories_are_explained_alike_from_columns(tmp_path: Path, form: str, share: int) -> None:
    for path in CATALOGUE[share::SHARES]:
        judged = judge_file(path)
        if isinstance(judged, Malformed):
            continue
        columns = tmp_path / f"{path.stem}{form}"
        convert(path, columns)

        assert explained_file(judged, columns) == explained_file(judged, path), path.name


def test_kills_faults_and_recovery_are_read_alike_from_columns(tmp_path: Path) -> None:
    path, columns = tmp_path / "history.jsonl", tmp_path / "history.arrow"
    write_lines(path, regular_header("unordered"), regular_history("unordered", 2500))
    convert(path, columns)

    text, cells = survey(FileLines(path)), survey(FileLines(columns))

    assert cells == text
    assert text.starts
