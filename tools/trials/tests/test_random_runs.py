"""Random runs: the reference is convicted of nothing, a defect is, and what shows nothing is drawn again."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from harness.explore.drawing import draw_scenario
from harness.judge.checkers.judge import judge
from harness.levels.sim.canaries import refuse_blind_simulation
from harness.levels.sim.run import simulate_scenario
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.sut.defects import variant_of
from harness.sut.variant import Variant
from harness.system.errors import Exit, HarnessError
from harness.tests.harness_defects import acquits_everything, expects_what_came
from tools.defects import mutant_named
from tools.trials.random_runs import main, mistakes, run_seeds


def order_of(seed: int) -> Order:
    return Order(scenario=draw_scenario(seed), level="sim", seed=seed)


def at_checkpoints(act: Callable[[Any], Any]) -> Variant:
    """A variant whose coordinator is given what `act` makes of each completed checkpoint."""

    def altered(honest: type[Any]) -> type[Any]:
        class Altered(honest):  # type: ignore[misc]  # it wraps whatever sink there is
            def completes(self, checkpoint: Any) -> None:
                super().completes(act(checkpoint))

        return Altered

    return Variant(coordination=altered)


def test_the_reference_passes_and_the_sums_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--runs", "4", "--seed", "300"]) == Exit.HOLD
    alone = capsys.readouterr().out.split(" in ")[0]

    assert main(["--runs", "4", "--seed", "300", "--jobs", "2"]) == Exit.HOLD
    assert capsys.readouterr().out.split(" in ")[0] == alone
    assert alone.startswith("4 runs, ")


def test_a_defect_is_convicted_with_its_seed() -> None:
    without_flight = at_checkpoints(lambda checkpoint: replace(checkpoint, elements=()))

    wrong = [why for *_, whys in run_seeds(range(8), variant=without_flight) for why in whys]

    assert any(": fail: " in why and "V10" in why for why in wrong)


def test_a_violation_and_an_open_verdict_have_the_exit_codes_of_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for why, code in (
        ("fail: V8 lost", Exit.VIOLATION),
        ("unexpected: KeyError", Exit.VIOLATION),
        ("unknown: V8", Exit.UNDECIDED),
    ):
        told = [("d", 1, 0, [f"seed 1: {why}"])]
        monkeypatch.setattr("tools.trials.random_runs.run_seeds", lambda _, told=told: told)

        assert main(["--runs", "1"]) == code


def test_an_attempt_that_fails_with_what_nobody_asked_for_is_told() -> None:
    broken: list[Any] = []

    def fails_once(checkpoint: Any) -> Any:
        if not broken:
            broken.append(checkpoint)
            raise LookupError("a defect")
        return checkpoint

    ((_, _, _, wrong),) = run_seeds(range(1), variant=at_checkpoints(fails_once))

    assert "seed 0: unexpected: LookupError: a defect" in wrong


def test_a_history_with_a_breach_of_the_format_or_a_gap_is_found() -> None:
    ran = simulate_scenario(order_of(1))
    broken = copy(ran)
    broken.events = [*ran.events, ran.events[-1]]
    judgement = judge(ran.header, ran.events)

    assert list(mistakes(ran, judgement, seed=10)) == []
    assert [why.split(":")[0] for why in mistakes(broken, judgement, seed=10)] == ["unrecorded", "malformed"]


def test_a_run_that_shows_nothing_is_replaced_trust8() -> None:
    ((_, _, draws, wrong),) = run_seeds([6])  # whose only decisive fault has no effect

    assert (draws, wrong) == (1, [])


def test_runs_begin_with_the_canaries_trust9(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_blind_simulation.cache_clear()
    acquits_everything(monkeypatch)

    with pytest.raises(HarnessError, match="blind at level sim"):
        run_seeds([1])


def test_a_run_is_compared_with_its_order_trust9(monkeypatch: pytest.MonkeyPatch) -> None:
    expects_what_came(monkeypatch)

    with pytest.raises(HarnessError, match="is told with the results"):
        run_seeds(range(300, 310))


def test_a_run_whose_every_record_asks_for_a_changing_key_is_no_contradiction_trust9() -> None:
    assert draw_scenario(5240).changing

    assert len(run_seeds([5240])) == 1


@pytest.mark.parametrize(
    ("mutant", "shows_it"),
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
)
def test_a_lookup_that_gets_wrong_rows_is_convicted_in_random_runs_trust6(
    mutant: str, shows_it: Callable[[Scenario], bool]
) -> None:
    shown = islice((order for order in map(order_of, range(200)) if shows_it(order.scenario)), 12)
    runs = (simulate_scenario(order, variant=variant_of(mutant_named(mutant))) for order in shown)

    assert any("V8" in {one.invariant for one in judge(ran.header, ran.events).convicted()} for ran in runs)
