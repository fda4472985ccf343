"""Which ends of Spark's Python workers count: any by a signal, and one that came before its attempt's own end."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.engine.level import ending_of
from harness.history.follower import AttemptView
from harness.levels.spark.ended_workers import EndedWorkers
from harness.process_identity import ProcessIdentity


@pytest.mark.parametrize(
    ("code", "over", "counts"), [(-9, False, True), (-9, True, True), (7, False, True), (255, True, False)]
)
def test_a_worker_that_ended_by_itself_after_its_attempt_is_not_told_u3(
    code: int,
    over: bool,  # noqa: FBT001 - a case
    counts: bool,  # noqa: FBT001
    tmp_path: Path,
) -> None:
    ended = EndedWorkers(tmp_path / "ended")
    (tmp_path / "ended").write_text(f"[77, {code}]\n[78, 1]\n")
    view = AttemptView(subtask=1, attempt=2, process=ProcessIdentity(pid=77, started=5), over=over)

    told = ended.new(lambda: [view])

    assert [(end.subtask, end.pid, end.code) for end in told] == ([(1, 77, code)] if counts else [])


@pytest.mark.parametrize(
    ("code", "words"),
    [(7, "the worker's process ended with exit code 7"), (-11, "the worker's process was ended by SIGSEGV")],
)
def test_how_a_worker_ended_is_told_in_words_u3(code: int, words: str) -> None:
    assert ending_of(code) == words
