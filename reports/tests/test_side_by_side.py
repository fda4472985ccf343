"""The page side by side: every implementation and every case, what is not here, and what to paste."""

from __future__ import annotations

from typing import Any

from reports.side_by_side import side_by_side_page


def column(label: str, outcome: str) -> dict[str, Any]:
    failed = outcome == "fail"
    case = {
        "name": "timeout/no_results",
        "claim": "A handler may answer nothing <at all>.",
        "outcome": outcome,
        "why": "",
    }
    told = {
        "name": case["name"],
        "claim": case["claim"],
        "why": "command 2 is answered otherwise",
        "expected": ['{"ev":"ended"}'],
        "came": [],
        "transcript": '> {"cmd":"open"}',
        "to_paste": '{"cmd":"open"}\n',
        "paste_into": "./mine",
        "known": "A80" if failed else "",
        "explained": "the handler is judged (FLINK-38082)",
    }
    counts = {"pass": int(not failed), "fail": int(failed), "not claimed": 2, "exempt": 0, "not run": 0}
    return {
        "label": label,
        "name": label,
        "version": "1",
        "holds": not failed,
        "asked_to_serve": "strict",
        "counts": counts,
        "cases": [case],
        "failed": [told] if failed else [],
        "not_shown": ["speed"],
        "page": f"{label}/index.html",
        "again": f"floodmark conform -- {label}",
    }


def page() -> str:
    columns = [column("mine", "pass"), column("theirs", "fail")]
    absent = [{"label": "Flink 1.20.5", "fix": "floodmark setup --oracle --flink 1.20"}]
    document = {
        "columns": columns,
        "absent": absent,
        "judged_by": "strict",
        "seed": 4,
        "scripts_per_mode": 9,
    }
    return side_by_side_page(document)


def test_each_implementation_is_a_column_and_each_case_a_row() -> None:
    text = page()

    assert all(f"<th>{label}</th>" in text for label in ("mine", "theirs"))
    assert "A handler may answer nothing &lt;at all&gt;." in text
    assert "✗ 0/1" in text
    assert "seed 4" in text


def test_what_is_not_here_says_how_to_get_it() -> None:
    assert "floodmark setup --oracle --flink 1.20" in page()


def test_a_difference_has_its_explanation_and_its_lines() -> None:
    text = page()

    assert "FLINK-38082" in text
    assert "To paste into" in text


def test_it_needs_no_script_and_loads_nothing() -> None:
    text = page()

    assert "<script" not in text
    assert "src=" not in text
    assert 'href="http' not in text
