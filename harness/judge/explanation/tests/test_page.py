"""`docs/explanation/reading-a-verdict.md` shows what is printed, and its tables hold every level."""

from __future__ import annotations

import re
from pathlib import Path

from harness.history.verdict import Judgement
from harness.judge.checkers.judge import judge_file
from harness.judge.explanation.explain import explained_file
from harness.judge.explanation.guarantee import DELIVERY, ORDER
from harness.judge.explanation.recovery import LAGS_KEPT, STEADY_RESULTS
from harness.judge.explanation.text import anomaly_lines

DOCS = Path(__file__).parents[4] / "docs"
PAGE = (DOCS / "explanation/reading-a-verdict.md").read_text()
FORMAT = (DOCS / "reference/history.md").read_text()


def test_the_example_is_what_is_printed_of_a_history_of_the_formats_page(tmp_path: Path) -> None:
    blocks = re.findall(r"```json\n(.*?)```", FORMAT, re.DOTALL)
    path = tmp_path / "history.jsonl"
    path.write_text(next(block for block in blocks if '"sink":"append"' in block))
    judgement = judge_file(path)
    assert isinstance(judgement, Judgement)

    (verdict,) = explained_file(judgement, path).convicted()

    (anomaly,) = verdict.anomalies
    (example,) = re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)
    assert "\n".join(anomaly_lines(anomaly)) + "\n" == example


def test_the_tables_hold_every_level_in_its_order() -> None:
    rows = re.findall(r"^\| ([a-z-]+) \|", PAGE, re.MULTILINE)

    assert [row for row in rows if row in DELIVERY] == list(DELIVERY)
    assert [row for row in rows if row in ORDER] == list(ORDER)


def test_the_numbers_of_the_measurement_are_those_of_the_code() -> None:
    assert f"{STEADY_RESULTS} results in a row" in PAGE
    assert f"the last {LAGS_KEPT}" in PAGE
