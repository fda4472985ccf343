"""The sweep: the reference is never convicted, a defect is, and what is found is repeated from its file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from harness.engine.executors import PlainExecutors
from harness.engine.level import Opening, RunSite
from harness.engine.perform import perform
from harness.explore.coverage import COVERAGE, coverage
from harness.explore.sweep import Swath, breaches_of, digest, judged, lines, main, order_of, sweep, swept
from harness.history.verdict import Outcome
from harness.levels.sim.level import SimulatedLevel
from harness.levels.sim.run import simulate_scenario
from harness.scenario.file import load
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.sut.defects import variant_of
from harness.sut.variant import Variant
from harness.system.errors import Exit, HarnessError
from harness.tests.harness_defects import acquits_everything, expects_what_came
from tools.cases import in_sweep_after


def _keeps_half(honest: type[Any]) -> type[Any]:
    class Forgetful(honest):  # type: ignore[misc]  # it wraps whatever sink there is
        """Completes checkpoints with nothing in flight."""

        def completes(self, checkpoint: Any) -> None:
            super().completes(replace(checkpoint, elements=()))

    return Forgetful


def test_the_reference_is_convicted_of_nothing() -> None:
    found = swept(range(300, 303))

    assert found.runs == 3
    assert found.failed == 0
    assert not found.malformed
    assert not found.surprises


def test_a_defect_is_convicted_and_told_with_its_seed() -> None:
    found = swept(range(5), variant=Variant(coordination=_keeps_half))

    assert found.failed > 0
    worst = next(one for one in found.convictions if one.outcome is Outcome.FAIL)
    assert "V10" in worst.why
    assert any(f"seed {worst.seed}: fail" in line for line in lines(found, seconds=1))


@pytest.mark.parametrize(
    ("mutant", "shows_it"),
    in_sweep_after(
        1,
        [
            ("stale-cache", lambda drawn: drawn.changing),
            ("stale-snapshot", lambda drawn: drawn.changing),
            ("key-in-8-bits", lambda drawn: drawn.workload.keys_like == "wide"),
            ("key-in-16-bits", lambda drawn: drawn.workload.keys_like == "wide"),
            ("key-without-sign", lambda drawn: drawn.workload.keys_like == "signed"),
            ("key-folded", lambda drawn: drawn.workload.keys_like == "unicode"),
            ("key-parts-joined", lambda drawn: drawn.workload.keys_like == "composite"),
            ("key-first-part", lambda drawn: drawn.workload.keys_like == "composite"),
        ],
    ),
)
def test_a_lookup_that_gets_wrong_rows_is_convicted_in_random_runs_trust6(
    mutant: str, shows_it: Callable[[Scenario], bool]
) -> None:
    variant = variant_of(mutant)
    orders = (order_of(seed) for seed in range(200))
    shown = islice((order for order in orders if shows_it(order.scenario)), 12)
    verdicts = (judged(order, simulate_scenario(order, variant=variant), variant=variant) for order in shown)

    assert any("V8" in {one.invariant for one in verdict.convicted()} for verdict in verdicts)


def test_the_same_seeds_in_two_processes_are_the_same_count() -> None:
    alone, shared = sweep(runs=2, seed=50), sweep(runs=2, seed=50, jobs=2)

    assert (alone.events, alone.outcomes, alone.happened) == (shared.events, shared.outcomes, shared.happened)


@pytest.mark.parametrize("seed", in_sweep_after(1, [3, 17]))
def test_a_run_is_repeated_from_its_file_with_the_same_digest(seed: int, tmp_path: Path) -> None:
    order = order_of(seed)
    main(["--runs", "1", "--seed", str(seed), "--keep", str(tmp_path)])

    again = Order(scenario=load(tmp_path / f"random-{seed}.yaml"), level="sim", seed=seed)
    with SimulatedLevel().open(Opening()) as play:
        outcome = perform(again, play=play, site=RunSite(run_id="again", folder=tmp_path / "again"))

    assert sha256(outcome.history.read_bytes()).hexdigest() == digest(simulate_scenario(order))


def test_an_attempt_that_fails_with_what_nobody_asked_for_is_told() -> None:
    broken: list[Any] = []

    def fragile(honest: type[Any]) -> type[Any]:
        class Fragile(honest):  # type: ignore[misc]  # it wraps whatever sink there is
            """Breaks at its first checkpoint."""

            def completes(self, checkpoint: Any) -> None:
                if not broken:
                    broken.append(checkpoint)
                    raise LookupError("a defect")
                super().completes(checkpoint)

        return Fragile

    found = swept(range(1), variant=Variant(coordination=fragile))

    assert found.surprises == ["seed 0: LookupError: a defect"]


def test_what_never_happened_is_named() -> None:
    told = list(lines(swept(range(1)), seconds=1))

    assert told[-1].startswith("never happened, so not tried: ")


def test_everything_that_is_counted_is_known() -> None:
    found = swept(range(1))

    assert set(found.happened) <= set(COVERAGE)


def test_a_history_with_a_breach_of_the_format_is_found() -> None:
    left = simulate_scenario(order_of(1))
    broken = replace(left, events=[*left.events, left.events[-1]])

    assert breaches_of(left) == []
    assert breaches_of(broken)


def test_coverage_is_counted_from_the_history() -> None:
    order = order_of(1)
    left = simulate_scenario(order)

    seen = coverage(order.scenario, left.header, left.events)

    assert seen["attempts"] >= order.scenario.workload.subtasks
    assert seen["calls"] >= order.scenario.workload.records


def test_the_command_prints_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--runs", "2", "--seed", "9"]) == Exit.HOLD

    assert "2 runs, " in capsys.readouterr().out


def test_a_run_that_shows_nothing_is_replaced_and_its_cause_is_counted_trust8() -> None:
    found = swept([6])  # whose only decisive fault has no effect

    assert found.runs == 1
    assert found.outcomes == {"PASS": 1}
    assert found.drawn_again == 1
    assert found.idle == {"latency had no effect": 1}
    assert any(
        "drawn again" in line and "latency had no effect 1" in line for line in lines(found, seconds=1)
    )


@pytest.mark.parametrize(
    ("outcome", "code"),
    [("PASS", Exit.HOLD), ("VACUOUS", Exit.UNDECIDED), ("UNKNOWN", Exit.UNDECIDED), ("FAIL", Exit.VIOLATION)],
)
def test_a_sweep_exits_as_run_does_trust8(outcome: str, code: Exit) -> None:
    swath = Swath(runs=2, outcomes=Counter({"PASS": 1, outcome: 1} if outcome != "PASS" else {"PASS": 2}))

    assert swath.exit_code is code


def test_a_sweep_begins_with_the_canaries_trust9(monkeypatch: pytest.MonkeyPatch) -> None:
    acquits_everything(monkeypatch)

    with pytest.raises(HarnessError, match="blind at level sim"):
        swept(range(1))


def test_a_run_of_a_sweep_is_compared_with_its_order_trust9(monkeypatch: pytest.MonkeyPatch) -> None:
    expects_what_came(monkeypatch)

    with pytest.raises(HarnessError, match="is told with the results"):
        swept(range(300, 303))


def test_a_run_whose_every_record_asks_for_a_changing_key_is_no_contradiction_trust9() -> None:
    order = order_of(5240)
    assert order.scenario.changing

    found = swept([order.seed])

    assert found.runs == 1


def test_a_sweep_is_the_same_on_executors() -> None:
    there = sweep(runs=2, executors=PlainExecutors())

    assert there == sweep(runs=2)
    assert there.digest
