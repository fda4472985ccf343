"""A campaign's exit code: only if all that was asked for ran and passed is it 0."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.engine.campaign import KEPT_MAX, Finished, carry_out
from harness.engine.level import Observer, Opening, Play, RunSite, Stop
from harness.engine.open_levels import StagePlan
from harness.engine.run_counts import Counted, counted_of, tallies
from harness.history.verdict import Judgement, Outcome
from harness.levels import level_named
from harness.levels.sim.level import SimulatedLevel
from harness.scenario.file import load_many
from harness.scenario.order import Order
from harness.scenario.outcome import RunOutcome, WorldDescription
from harness.system.errors import CannotHere, Exit, NothingRan, WorldError
from tools.cases import each, in_sweep_after

PASS, VACUOUS, UNKNOWN, FAIL = Outcome.PASS, Outcome.VACUOUS, Outcome.UNKNOWN, Outcome.FAIL
ORDER = Order(scenario=load_many(["calm"])[0], level="live", seed=1)
BROKE = WorldError("the server went away")
KIND: dict[str, Any] = {"order": 0, "scenario": "calm", "level": "live", "seed": 1}


def outcome(verdict: Outcome) -> RunOutcome:
    """A run that ended with `verdict`."""
    return RunOutcome(
        run_id="r",
        scenario="small",
        about="",
        plan={},
        level="live",
        seed=1,
        sut="reference",
        mutant=None,
        convicts=(),
        world=WorldDescription(kind="local", why="", server="", proxy="", ready_s=0.0),
        judgement=Judgement(outcome=verdict, invariants=()),
        faults=(),
        history=Path("history.jsonl"),
        started_at="",
        duration_s=0.0,
        phases_s={},
        accounting={},
        again="",
        versions={},
    )


@each(
    ("verdicts", "missing", "interrupted", "error", "code"),
    [
        ([PASS], 0, False, None, Exit.HOLD),
        ([PASS, PASS, PASS], 0, False, None, Exit.HOLD),
        ([PASS, FAIL], 0, False, None, Exit.VIOLATION),
        ([FAIL, UNKNOWN, VACUOUS], 0, False, None, Exit.VIOLATION),
        ([PASS, UNKNOWN], 0, False, None, Exit.UNDECIDED),
        ([PASS, VACUOUS], 0, False, None, Exit.UNDECIDED),
        ([PASS], 1, False, None, Exit.UNDECIDED),
        ([FAIL], 1, False, None, Exit.VIOLATION),
        ([], 1, False, None, Exit.UNDECIDED),
        ([PASS], 1, True, None, Exit.INTERRUPTED),
        ([PASS], 0, True, None, Exit.INTERRUPTED),
        ([UNKNOWN], 2, True, None, Exit.INTERRUPTED),
        ([FAIL, UNKNOWN], 2, True, None, Exit.VIOLATION),
        ([], 2, True, None, Exit.INTERRUPTED),
        ([PASS], 1, False, BROKE, Exit.ENVIRONMENT),
        ([UNKNOWN], 1, False, BROKE, Exit.UNDECIDED),
        ([VACUOUS], 1, False, BROKE, Exit.UNDECIDED),
        ([FAIL], 1, False, BROKE, Exit.VIOLATION),
        ([PASS], 1, True, BROKE, Exit.INTERRUPTED),
    ],
)
def test_the_exit_code_of(
    verdicts: Sequence[Outcome],
    missing: int,
    interrupted: bool,  # noqa: FBT001 - a case
    error: WorldError | None,
    code: Exit,
) -> None:
    finished = Finished(
        outcomes=tuple(outcome(verdict) for verdict in verdicts),
        tallies=tuple(
            tallies(
                [ORDER] * len(verdicts),
                [counted_of(number, outcome(verdict)) for number, verdict in enumerate(verdicts)],
            )
        ),
        asked=len(verdicts) + missing,
        interrupted=interrupted,
        error=error,
    )

    assert finished.exit_code is code


@pytest.mark.parametrize(
    ("verdicts", "code"), [([PASS], Exit.USAGE), ([UNKNOWN], Exit.USAGE), ([FAIL], Exit.VIOLATION)]
)
def test_a_function_that_is_refused_in_some_runs_gives_4_unless_another_run_is_violated(
    verdicts: Sequence[Outcome], code: Exit
) -> None:
    finished = Finished(
        outcomes=tuple(outcome(verdict) for verdict in verdicts),
        tallies=(),
        asked=len(verdicts) + 1,
        interrupted=False,
        refused=("in keys-composite: it returned a set",),
    )
    counted = [counted_of(number, outcome(verdict)) for number, verdict in enumerate(verdicts)]

    assert replace(finished, tallies=tuple(tallies([ORDER], counted))).exit_code is code


REFUSED_AT = """\
def expected(record, rows):
    return [1]


async def lookup(record, pool):
    return {1} if isinstance(record.key, tuple) else [1]
"""
SMALL = """\
scenario: {name}
about: A few lookups.
levels: [sim]
operator: {{mode: ordered}}
workload: {{records: 10, subtasks: 1, keys_like: {keys}}}
decisive: [V1]
"""


@pytest.mark.parametrize("copies", in_sweep_after(1, [1, KEPT_MAX + 1]))
def test_the_other_runs_are_made_where_the_function_is_refused(
    copies: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "refused_at.py").write_text(REFUSED_AT)
    for name, keys in (("pairs", "composite"), ("plain", "signed")):
        (tmp_path / f"{name}.yaml").write_text(SMALL.format(name=name, keys=keys))
    monkeypatch.syspath_prepend(str(tmp_path))
    orders = [
        Order(scenario=scenario, level="sim", seed=seed, sut="refused_at:lookup")
        for scenario in load_many([str(tmp_path / "pairs.yaml"), str(tmp_path / "plain.yaml")])
        for seed in range(1, copies + 1)
    ]

    finished = carry_out(
        orders,
        StagePlan(run_id="r", report=tmp_path / "report", levels=level_named),
        observer=Observer(),
        stop=Stop(),
    )

    [refusal] = finished.refused
    runs = f" ({copies} runs)" if copies > 1 else ""
    assert refusal.startswith(f"in pairs{runs}: lookup returned set for record ")
    assert any(run.scenario == "plain" for run in finished.outcomes)
    assert finished.exit_code is Exit.USAGE


class OrderOfAll(Order):
    """One that was not named."""

    named = False


def _pairs_and_plain(folder: Path, kind: type[Order]) -> list[Order]:
    for name in ("pairs", "plain"):
        (folder / f"{name}.yaml").write_text(SMALL.format(name=name, keys="signed"))
    scenarios = load_many([str(folder / "pairs.yaml"), str(folder / "plain.yaml")])
    return [kind(scenario=scenario, level="sim", seed=1) for scenario in scenarios]


def _without_kafka(folder: Path) -> StagePlan:
    return StagePlan(run_id="r", report=folder / "report", levels=lambda name: WithoutKafka())


class WithoutKafka(SimulatedLevel):
    """Level sim, whose system under test lacks Kafka for the scenario `pairs`."""

    @contextmanager
    def open(self, opening: Opening) -> Iterator[Play]:
        def made(order: Any, site: RunSite) -> Any:
            if order.scenario.scenario == "pairs":
                raise CannotHere("scenario pairs cannot run here: there is no broker", need="Kafka")
            return play(order, site)

        with super().open(opening) as play:
            yield made


@pytest.mark.parametrize(
    ("kind", "asked", "code"),
    [(OrderOfAll, 1, Exit.HOLD), (Order, 2, Exit.USAGE)],
    ids=["of-all", "named"],
)
def test_what_the_system_under_test_cannot_meet_is_left_out_or_refused_if_it_was_named(
    kind: type[Order], asked: int, code: Exit, tmp_path: Path
) -> None:
    orders = _pairs_and_plain(tmp_path, kind)

    finished = carry_out(orders, _without_kafka(tmp_path), observer=Observer(), stop=Stop())

    assert (finished.asked, finished.ran, finished.exit_code) == (asked, 1, code)
    assert [one.need for one in finished.left_out] == ([] if kind is Order else ["Kafka"])
    assert len(finished.refused) == (kind is Order)


def test_nothing_ran_where_all_was_left_out(tmp_path: Path) -> None:
    pairs, _ = _pairs_and_plain(tmp_path, OrderOfAll)

    with pytest.raises(NothingRan, match="1 left out: 1 needs Kafka"):
        carry_out([pairs], _without_kafka(tmp_path), observer=Observer(), stop=Stop())


def test_the_secrets_of_a_campaign_are_not_in_its_text() -> None:
    finished = Finished(outcomes=(), tallies=(), asked=0, interrupted=False, secrets=("hunter2",))

    assert "hunter2" not in repr(finished)


@pytest.mark.parametrize(
    ("outcome", "as_expected", "code"),
    [
        (FAIL, True, Exit.HOLD),
        (VACUOUS, True, Exit.HOLD),
        (PASS, False, Exit.VIOLATION),
        (FAIL, False, Exit.VIOLATION),
        (UNKNOWN, False, Exit.UNDECIDED),
    ],
)
def test_a_convicted_defect_holds_and_a_surviving_one_is_a_violation(
    outcome: Outcome,
    as_expected: bool,  # noqa: FBT001 - a case
    code: Exit,
) -> None:
    planted = replace(ORDER, mutant="tools.defects:late_results")
    run = Counted(**KIND, mutant=planted.mutant, verdict=outcome, as_expected=as_expected, events=1)

    finished = Finished(outcomes=(), tallies=tuple(tallies([planted], [run])), asked=1, interrupted=False)

    assert finished.exit_code is code


def test_a_pitfall_that_makes_a_run_fail_is_a_violation_to_the_exit_code_u2() -> None:
    run = Counted(**KIND, mutant=None, verdict=PASS, as_expected=False, events=1, falls=True)

    finished = Finished(outcomes=(), tallies=tuple(tallies([ORDER], [run])), asked=1, interrupted=False)

    assert finished.exit_code is Exit.VIOLATION
