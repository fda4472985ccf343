"""The random scenario as a Hypothesis state machine: the peer of the seeded loop, which could also shrink failures.

Answers to `hypothesis.stateful.RuleBasedStateMachine`. Invariant: it drives the same `Trial` as `run_seed` and ends in
the same check. One example is one scenario: about as many steps as `run_seed` makes (`STEPS`), then the rest of the
input, the drain and the check.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from harness.system.clock import monotonic_us
from harness.system.errors import WorldError
from reference_impl.mailbox.loops import virtual_loop
from reference_impl.operator.build import BuildOperator, Mode, build_operator
from tools.bench.random_scenario import ELEMENTS, RECORDS, Trial

if TYPE_CHECKING:
    from hypothesis.stateful import RuleBasedStateMachine

STEPS = 115
"""Most steps of an example; about 100 are made, as in `run_seed`. Hypothesis's default of 50 is half a scenario."""
_MODES: Sequence[Mode] = ("ordered", "unordered")
_CHECKPOINTS_MAX = 2
_CRASHES_MAX = 1


def run_examples(examples: int, *, build: BuildOperator = build_operator) -> float:
    """Seconds per example that Hypothesis ran. Raises the exception of a failing example."""
    try:
        from hypothesis import HealthCheck, Phase, settings  # noqa: PLC0415 - an extra, and slow to import
        from hypothesis.stateful import run_state_machine_as_test  # noqa: PLC0415
    except ImportError as error:
        raise WorldError(
            "there is no Hypothesis to compare with", fix="pip install 'floodmark[dev]'"
        ) from error
    finished: list[Trial] = []
    machine = _machine(build, finished.append)
    began_us = monotonic_us()
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            phases=[Phase.generate],
            database=None,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
    return (monotonic_us() - began_us) / 1e6 / len(finished)


def _machine(build: BuildOperator, finished: Callable[[Trial], None]) -> type[RuleBasedStateMachine]:
    """The machine's class; defined here because Hypothesis is imported only when needed."""
    from hypothesis import strategies as st  # noqa: PLC0415
    from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule  # noqa: PLC0415

    class Machine(RuleBasedStateMachine):
        trial: Trial

        @initialize(mode=st.sampled_from(_MODES), pace=st.binary(min_size=RECORDS, max_size=RECORDS))
        def begin(self, mode: Mode, pace: bytes) -> None:
            self.life = ExitStack()
            loop = self.life.enter_context(virtual_loop())
            self.trial = Trial(loop=loop, mode=mode, pace=pace, build=build)
            self.checkpoints = self.crashes = 0

        @precondition(lambda self: self.trial.position < len(ELEMENTS))
        @rule()
        def feed(self) -> None:
            self.trial.feed()

        @rule()
        def run_mail(self) -> None:
            self.trial.run_mail()

        @rule()
        def let_time_pass(self) -> None:
            self.trial.let_time_pass()

        @precondition(lambda self: self.checkpoints < _CHECKPOINTS_MAX)
        @rule()
        def checkpoint(self) -> None:
            self.checkpoints += 1
            self.trial.checkpoint()

        @precondition(lambda self: self.crashes < _CRASHES_MAX)
        @rule()
        def crash(self) -> None:
            self.crashes += 1
            self.trial.crash()

        def teardown(self) -> None:
            if hasattr(self, "trial"):
                with self.life:
                    self.trial.finish()
                finished(self.trial)

    return Machine
