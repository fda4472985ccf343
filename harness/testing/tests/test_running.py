"""A run from Python is the run of the command line; what cannot be run is refused with a sentence."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from harness.scenario.catalogue import catalogue
from harness.scenario.file import dump
from harness.system.errors import ScenarioError, SutError, UsageError, WorldError
from harness.testing import Outcome, Scenario, check, load, run
from harness.testing.running import order_of

FEW = {
    "scenario": "few",
    "about": "A few lookups of one subtask, without a fault.",
    "operator": {"mode": "ordered"},
    "workload": {"records": 40, "subtasks": 1, "rate": "1000/s", "checkpoint_every": 10},
    "decisive": ["V8"],
}
SHARED: dict[str, Any] = {}


async def right(record: Any, pool: Any) -> list[dict[str, Any]]:
    row = await pool.fetch_one("SELECT name, city, tier FROM customer WHERE k = %s", (record.key,))
    return [] if row is None else [{"name": row[0], "city": row[1], "tier": row[2]}]


async def wrong(record: Any, pool: Any) -> list[dict[str, Any]]:
    """Puts every answer into one object."""
    for answer in await right(record, pool):
        SHARED.update(answer)
    return [SHARED]


async def constant(record: Any, pool: Any) -> list[dict[str, Any]]:
    return [{"name": "nobody"}]


def stated(record: Any, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in ("name", "city", "tier")} for row in rows]


async def returns_bytes(record: Any, pool: Any) -> bytes:
    return b"no JSON"


def test_a_right_function_holds_and_leaves_its_history_u5() -> None:
    judged = run(FEW, sut=right, seed=7)

    assert judged.verdict.holds
    assert judged.outcome == "pass"
    assert judged.verdict.invariants["V8"] is Outcome.PASS
    assert judged.seed == 7


def test_a_wrong_function_is_convicted_with_the_explanation_u5() -> None:
    judged = run(FEW, sut=wrong, seed=7)

    assert not judged.verdict.holds
    assert "V8" in judged.verdict.violated
    assert "V8 exactly once: " in judged.verdict.explanation
    assert "✗ VIOLATED" in judged.verdict.explanation


def test_a_function_that_breaks_a_rule_is_refused_u5() -> None:
    with pytest.raises(SutError, match="lookup returned bytes for record"):
        run(FEW, sut=returns_bytes)


def test_the_report_holds_the_page_and_the_history_which_check_judges_alike_u5(tmp_path: Path) -> None:
    judged = run(FEW, sut=wrong, seed=7)

    page = judged.report(tmp_path / "report")

    (history,) = (tmp_path / "report").rglob("*.jsonl")
    checked = check(history)
    assert page.is_file()
    assert checked.violated == judged.verdict.violated
    assert "wrong-value" in checked.explanation


def test_the_history_is_a_table_of_its_events_u5() -> None:
    pytest.importorskip("pyarrow")

    table = run(FEW, sut=right, seed=7).history()

    kinds = table.column("k").to_pylist()
    assert kinds.count("in") == 40
    assert table.column("n").to_pylist() == list(range(1, len(kinds) + 1))


def test_the_temporary_folder_goes_with_the_run_u5() -> None:
    judged = run(FEW, sut=right, seed=7)
    history = judged._left.history
    assert history.is_file()

    del judged
    gc.collect()

    assert not history.exists()


@pytest.mark.sweep
def test_a_run_is_repeated_by_the_command_that_it_names_u5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "enrich_again.py").write_text(Path(__file__).read_text(encoding="utf-8"))
    (tmp_path / "few.yaml").write_text(dump(load(FEW)))
    monkeypatch.chdir(tmp_path)
    judged = run("few.yaml", sut="enrich_again:wrong", seed=3)

    code = main([*judged.again.split()[1:], "--quiet"])

    assert judged.again == f"floodmark run {tmp_path}/few.yaml --level sim --seed 3 --sut enrich_again:wrong"
    assert code == judged.outcome.exit_code == 1
    sys.modules.pop("enrich_again", None)


def test_a_scenario_written_in_python_is_the_one_of_a_file_u5() -> None:
    loaded = load(FEW)

    assert isinstance(loaded, Scenario)
    assert load(loaded) is loaded
    assert loaded.workload.records == 40
    assert load("calm") == load(catalogue()["calm"])


def test_every_mistake_of_a_scenario_in_python_is_named_u5() -> None:
    with pytest.raises(ScenarioError) as mistakes:
        load({**FEW, "decisiv": ["V8"], "workload": {"records": "many"}})

    assert "decisiv" in str(mistakes.value)
    assert "workload.records" in str(mistakes.value)


def test_a_folder_of_scenarios_is_no_scenario_u5() -> None:
    with pytest.raises(UsageError, match="name one file or one scenario"):
        load("network")


def order(sut: str, level: str, *, expected: str | None = None, source: Any = "calm") -> Any:
    return order_of(
        load(source),
        source=source,
        sut=sut,
        level=level,
        seed=1,
        expected=expected,
        world=("auto", "own"),
    )


def test_a_function_of_the_running_program_is_refused_where_a_worker_must_import_it_u5() -> None:
    with pytest.raises(SutError, match="the processes of a run cannot import"):
        order("__main__:lookup", "live")
    assert order("__main__:lookup", "sim").sut == "__main__:lookup"


def test_a_module_that_no_folder_has_is_refused_where_a_worker_must_import_it_u5() -> None:
    with pytest.raises(SutError, match="no folder of the import path has `nowhere`"):
        order("nowhere.tests:lookup", "live")


def test_an_order_hands_over_what_is_expected_and_the_import_path_u5() -> None:
    made = order("enrich:lookup", "sim", expected="none")

    assert made.expected == "none"
    assert made.again.endswith("--sut enrich:lookup --expected none")
    assert set(sys.path) - {""} <= set(made.import_path)


def test_what_cannot_say_what_is_expected_is_refused_u5() -> None:
    with pytest.raises(SutError, match="--expected enrich_nowhere:stated"):
        order("enrich:lookup", "sim", expected="enrich_nowhere:stated")
    with pytest.raises(UsageError, match="what reference must return is known"):
        order("reference", "sim", expected="none")


def test_what_is_stated_convicts_what_is_wrong_by_itself_u1() -> None:
    held = run(FEW, sut=right, expected=stated, seed=7)
    convicted = run(FEW, sut=constant, expected=stated, seed=7)

    assert held.verdict.holds, held.verdict.explanation
    assert "V8" in convicted.verdict.violated


def test_a_saved_find_runs_with_its_seed_and_the_explanation_names_another_function_first_h1() -> None:
    shows = {"invariant": "V8", "kind": "wrong-value", "sut": "elsewhere:lookup"}

    judged = run({**FEW, "choices": {"seed": 5}, "shows": shows}, sut=right)

    assert judged.seed == 5
    assert "in place of elsewhere:lookup" in judged.verdict.explanation.splitlines()[0]


def test_a_scenario_that_is_in_no_file_is_repeated_by_the_call_u5() -> None:
    assert order("enrich:lookup", "sim", source=FEW).again.startswith("harness.testing.run('few' as written")


def test_columns_without_pyarrow_are_refused_with_the_extra_to_install_u5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith(("pyarrow", "harness.history.columnar"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    judged = run(FEW, sut=right, seed=7)

    with pytest.raises(WorldError, match=r"pip install 'floodmark\[columns\]'"):
        judged.history()
