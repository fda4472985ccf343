"""The shrinker: what it returns shows the same, the reference does not, and it is deterministic and interruptible."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.explore.drawing import draw_scenario
from harness.explore.find import Find, load_find
from harness.explore.shrink import Runs, SeenRun, open_runs, shrink
from harness.explore.shrinking import NotShown, ShrinkStep
from harness.history.text import digest_of
from harness.scenario.model import Scenario
from harness.system.errors import HarnessError


@pytest.fixture(scope="module")
def run() -> Runs:
    with open_runs() as runs:
        return runs


def drawn(mutant: str, seed: int, invariant: str, kind: str) -> Find:
    return Find(scenario=draw_scenario(seed), seed=seed, mutant=mutant, invariant=invariant, kind=kind)


def counted(run: Runs, on: Callable[[Find], None]) -> Runs:
    def made(find: Find) -> SeenRun | None:
        on(find)
        return run(find)

    return made


@pytest.mark.sweep
@pytest.mark.parametrize(
    "find",
    [
        drawn("offset-one-late", 0, "V10", "skipped"),
        drawn("settles-twice", 0, "V8", "duplicate"),
        drawn("tools.defects:commits_again", 0, "V9", "double-effect"),
    ],
    ids=lambda find: find.mutant,
)
def test_a_drawn_find_becomes_at_most_one_fault_and_six_records_that_show_the_same(
    find: Find, run: Runs, tmp_path: Path
) -> None:
    small = shrink(find, run=run)
    seen, honest = run(load_find(small.save(tmp_path))), run(small.of_reference)

    assert len(small.scenario.faults) <= 1
    assert small.scenario.workload.records * small.scenario.workload.subtasks <= 6
    assert seen is not None
    assert honest is not None
    assert (find.invariant, find.kind) in seen.judgement.shown
    assert (find.invariant, find.kind) not in honest.judgement.shown


@pytest.mark.sweep
def test_each_accepted_step_was_run_and_shows_the_same(run: Runs) -> None:
    steps = list[ShrinkStep]()
    find = drawn("offset-one-late", 0, "V10", "skipped")

    small = shrink(find, run=run, on_step=steps.append)

    accepted = [step.find for step in steps if step.accepted]
    assert accepted[-1].scenario.workload == small.scenario.workload
    assert all(step.why for step in steps if not step.accepted)
    for one in accepted[:: max(1, len(accepted) // 4)]:
        seen = run(one)
        assert seen is not None
        assert ("V10", "skipped") in seen.judgement.shown


@pytest.mark.sweep
def test_the_file_gives_the_same_history_in_a_process_with_another_hash_seed(
    run: Runs, tmp_path: Path
) -> None:
    find = drawn("offset-one-late", 0, "V10", "skipped")
    file = find.save(tmp_path)
    seen = run(load_find(file))
    assert seen is not None
    here = digest_of(seen.record.header, seen.record.events)
    program = (
        "import sys; from pathlib import Path; from harness.sut.defects import variant_of\n"
        "from harness.explore.find import load_find; from harness.history.text import digest_of\n"
        "from harness.levels.sim.run import simulate_scenario\n"
        "find = load_find(Path(sys.argv[1]))\n"
        "ran = simulate_scenario(find.order, variant=variant_of(find.mutant))\n"
        "print(digest_of(ran.header, ran.events))"
    )

    there = subprocess.run(
        ["env", "PYTHONHASHSEED=12", sys.executable, "-c", program, str(file)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert there.stdout.strip() == here


def test_an_interrupted_shrinking_returns_the_smallest_so_far(run: Runs) -> None:
    find = drawn("offset-one-late", 0, "V10", "skipped")
    steps = list[ShrinkStep]()

    small = shrink(
        find, run=run, on_step=steps.append, goes_on=lambda: not any(step.accepted for step in steps)
    )

    assert [step.accepted for step in steps][-1]
    assert small.scenario.faults == steps[-1].find.scenario.faults
    assert small.scenario != find.scenario


def test_a_run_that_does_not_show_it_is_refused(run: Runs) -> None:
    with pytest.raises(NotShown, match="does not show V10 skipped"):
        shrink(Find(scenario=draw_scenario(0), seed=0, invariant="V10", kind="skipped"), run=run)


def test_what_the_reference_shows_too_is_not_accepted(run: Runs) -> None:
    find = drawn("offset-one-late", 0, "V10", "skipped")
    seen = run(find)

    def always(find: Find) -> SeenRun | None:
        del find
        return seen

    steps = list[ShrinkStep]()
    small = shrink(find, run=always, on_step=steps.append)

    assert small.scenario.workload == find.scenario.workload
    assert {step.why for step in steps} == {"the reference shows it too"}


def test_a_candidate_that_cannot_be_run_is_not_accepted(run: Runs) -> None:
    find = drawn("offset-one-late", 0, "V10", "skipped")
    first = [run(find)]

    def only_once(find: Find) -> SeenRun | None:
        del find
        return first.pop() if first else None

    small = shrink(find, run=only_once)

    assert small.scenario.workload == find.scenario.workload
    assert small.scenario.faults == find.scenario.faults


def test_first_come_first_served_differs_from_the_drawn_schedule_and_repeats(run: Runs) -> None:
    scenario = draw_scenario(0)
    fifo = Scenario.model_validate(
        {**scenario.model_dump(mode="json", by_alias=True), "choices": {"seed": 0, "order": "fifo"}}
    )
    bare = Find(scenario=scenario, seed=0, invariant="V8", kind="lost")

    runs = [run(bare), run(bare.with_scenario(fifo)), run(bare.with_scenario(fifo))]
    drawn_once, first, again = (
        digest_of(seen.record.header, seen.record.events) if seen else "" for seen in runs
    )

    assert drawn_once != first
    assert first == again


def test_every_choice_an_exception_is_the_drawn_schedule(run: Runs) -> None:
    scenario = draw_scenario(0)
    choices = {"seed": 0, "order": "fifo", "drawn": list(range(1, 3000))}
    excepted = Scenario.model_validate(
        {**scenario.model_dump(mode="json", by_alias=True), "choices": choices}
    )
    bare = Find(scenario=scenario, seed=0, invariant="V8", kind="lost")

    plain, other = run(bare), run(bare.with_scenario(excepted))

    assert plain is not None
    assert other is not None
    assert list(plain.record.events) == list(other.record.events)


def test_a_harness_that_overlooks_a_canary_does_not_shrink(monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(*_: object) -> None:
        raise HarnessError("overlooked", fix="mend it")

    monkeypatch.setattr("harness.levels.sim.level.refuse_blind_simulation", blind)

    with pytest.raises(HarnessError, match="overlooked"), open_runs():
        pass
