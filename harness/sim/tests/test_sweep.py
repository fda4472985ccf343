"""The sweep: the reference is never convicted, a defect is, and the count does not depend on who counts."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import Exit
from harness.sim.happenings import HAPPENINGS, happenings
from harness.sim.sweep import breaches_of, lines, main, sweep, swept
from harness.sim.tests.situations import ran, situation
from harness.sim.variant import Variant
from harness.verdict import Outcome


def _keeps_half(honest: type[Any]) -> type[Any]:
    class Forgetful(honest):  # type: ignore[misc]  # it wraps whatever sink there is
        """Completes checkpoints with nothing in flight."""

        def completes(self, checkpoint: Any) -> None:
            super().completes(
                type(checkpoint)(number=checkpoint.number, position=checkpoint.position, elements=())
            )

    return Forgetful


def test_the_reference_is_convicted_of_nothing() -> None:
    found = swept(range(300, 304))

    assert found.runs == 4
    assert found.failed == 0
    assert not found.malformed
    assert not found.surprises


def test_a_defect_is_convicted_and_told_with_its_seed() -> None:
    found = swept(range(3), variant=Variant(coordination=_keeps_half))

    assert found.failed > 0
    worst = next(one for one in found.convictions if one.outcome is Outcome.FAIL)
    assert "V10" in worst.why
    assert any(f"seed {worst.seed}: fail" in line for line in lines(found, seconds=1))


def test_the_same_seeds_in_two_processes_are_the_same_count() -> None:
    alone, shared = sweep(runs=4, seed=50), sweep(runs=4, seed=50, jobs=2)

    assert (alone.events, alone.outcomes, alone.happened) == (shared.events, shared.outcomes, shared.happened)


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


def test_every_happening_that_is_counted_is_known() -> None:
    found = swept(range(3))

    assert set(found.happened) <= set(HAPPENINGS)


def test_a_history_with_a_breach_of_the_format_is_found() -> None:
    left = ran(situation())
    broken = type(left)(
        header=left.header,
        events=[*left.events, left.events[-1]],
        error=None,
        virtual_ms=left.virtual_ms,
        numbered=left.numbered,
    )

    assert breaches_of(left) == []
    assert breaches_of(broken)


def test_happenings_are_counted_from_the_history() -> None:
    left = ran(situation())

    seen = happenings(left.header, left.events)

    assert seen["attempts"] == 1
    assert seen["results"] == 6
    assert seen["watermarks in"] == seen["watermarks out"] == 3
    assert seen["restores"] == 0


def test_the_command_prints_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--runs", "2", "--seed", "9"]) == Exit.HOLD

    assert "2 runs, " in capsys.readouterr().out
