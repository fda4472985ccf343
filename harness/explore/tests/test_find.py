"""A find: its file repeats it, its name is its content, and what is no find is refused with one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.explore import find as find_module
from harness.explore.find import Find, load_find
from harness.scenario.file import dump, dump_short, load, loads
from harness.scenario.model import Scenario
from harness.scenario.yaml_text import ScenarioProblems
from harness.system.errors import UsageError, WorldError

PLAIN = """\
scenario: plain
about: A small scenario without faults.
operator: {mode: ordered}
workload: {records: 3}
decisive: [V8]
"""


def a_find(seed: int = 7) -> Find:
    return Find(scenario=loads(PLAIN), seed=seed, invariant="V8", kind="lost", mutant="offset-one-late")


def test_a_saved_find_reads_back_with_seed_system_and_violation(tmp_path: Path) -> None:
    find = load_find(a_find().save(tmp_path))

    assert (find.seed, find.sut, find.mutant, find.shows) == (7, "reference", "offset-one-late", "V8 lost")
    assert find.saved == a_find().saved


def test_the_same_find_is_kept_once_and_another_one_beside_it(tmp_path: Path) -> None:
    first, again, other = a_find().save(tmp_path), a_find().save(tmp_path), a_find(8).save(tmp_path)

    assert first == again != other
    assert first.name.startswith("V8-lost-")
    assert first.suffix == ".yaml"


def test_saving_a_loaded_find_gives_the_same_file(tmp_path: Path) -> None:
    file = a_find().save(tmp_path)

    assert load_find(file).save(tmp_path) == file


def test_a_scenario_that_is_no_find_is_refused_with_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "plain.yaml"
    file.write_text(PLAIN, encoding="utf-8")

    with pytest.raises(UsageError, match="no saved find: it has no `shows`"):
        load_find(file)


def test_rubbish_in_a_file_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "rubbish.yaml"
    file.write_text(PLAIN + "shows: {invariant: V99, kind: lost}\nchoices: {order: fifo}\n", encoding="utf-8")

    with pytest.raises(ScenarioProblems) as refused:
        load_find(file)

    assert "no invariant `V99`" in str(refused.value)
    assert "rubbish.yaml:7" in str(refused.value)


def test_a_folder_that_cannot_be_made_is_an_error_of_the_machine_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "found").write_text("a file in its place", encoding="utf-8")

    with pytest.raises(WorldError, match="cannot be saved"):
        a_find().save(tmp_path / "found")

    assert [file.name for file in tmp_path.iterdir()] == ["found"]


@pytest.mark.parametrize("written", [dump, dump_short])
def test_both_written_forms_of_a_find_read_back_as_it_is(
    written: Callable[[Scenario], str], tmp_path: Path
) -> None:
    saved = load(a_find().save(tmp_path))

    assert loads(written(saved)) == saved


def test_a_find_without_a_fault_is_at_most_fifteen_lines(tmp_path: Path) -> None:
    assert len(a_find().save(tmp_path).read_text(encoding="utf-8").splitlines()) <= 15


def test_exceptions_need_an_order_from_which_they_are_exceptions() -> None:
    with pytest.raises(ScenarioProblems, match="exceptions from `order: fifo`"):
        loads(PLAIN + "choices: {seed: 1, drawn: [3]}\n")


def test_a_recorded_call_is_there_once() -> None:
    with pytest.raises(ScenarioProblems, match="call 1 of record 3 is there twice"):
        loads(PLAIN + "choices: {seed: 1, calls: [{id: 3, takes: 1ms}, {id: 3, takes: 2ms}]}\n")


def test_about_says_what_is_wrong_once(monkeypatch: pytest.MonkeyPatch) -> None:
    say = "output 0 of record 3 is missing"
    then = (f"However, {say}, and after a normal finish every expected output is visible: a contradiction.",)
    anomaly = SimpleNamespace(kind="lost", say=say, explanation=SimpleNamespace(then=then))
    explained = SimpleNamespace(invariants=[SimpleNamespace(invariant="V8", anomalies=[anomaly])])
    monkeypatch.setattr(find_module, "explained_events", lambda *_: explained)
    seen: Any = None

    told = a_find().told(seen, seen, ())

    assert told.scenario.about == (
        f"V8 lost without a fault: {say}. However, after a normal finish every expected output is visible."
    )


def test_what_a_find_saves_is_a_scenario_of_every_level_that_its_faults_allow() -> None:
    scenario: Scenario = a_find().saved

    assert scenario.levels == ("sim", "live", "spark")
