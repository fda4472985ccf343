"""What each runner of level `spark` cannot do, in a sentence, before anything is started.

Answers to Spark's own `UnsupportedOperationChecker`. Invariant: a scenario says nothing of runners; whatever a runner
cannot do is found here, from the scenario, and has a sentence that says why.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import CannotHere
from harness.runs.order import Order
from harness.scenario.model import CheckpointDone, Phase, Scenario

__all__ = ["lacks_of_runner", "refuse_of_runner"]

_OF_DRIVER = frozenset({"commit.pre", "commit.post", "close"})
"""The phases that a batch reaches in the driver."""


def refuse_of_runner(order: Order) -> None:
    """Raises CannotHere, with all the reasons, if the order's runner cannot perform its scenario."""
    if order.runner == "stateful":
        message = "--runner stateful is not built yet"
        raise CannotHere(message, fix="use --runner micro-batch")
    told = [] if order.runner == "continuous" else list(lacks_of_runner(order.scenario))
    if told:
        message = f"scenario {order.scenario.scenario} cannot run here: {'; '.join(told)}"
        raise CannotHere(message, fix=f"leave --runner {order.runner} out")


def lacks_of_runner(scenario: Scenario) -> Iterator[str]:
    """Why `scenario` cannot run in batches; nothing: it can."""
    if scenario.sink != "atomic":
        yield (
            f"sink {scenario.sink} commits when a coordinator tells each subtask to, and a batch has one transaction"
            " of the driver for all subtasks"
        )
    if scenario.workload.checkpoint_every is None:
        yield "checkpoints by time need a task that outlives them, and a batch ends where its records do"
    if scenario.operator.upstream is not None:
        yield "an operator in front of the lookups holds elements of which a batch's range knows nothing"
    for fault in scenario.faults:
        if fault.loses_commits:
            yield (
                f"`{fault.do}` (fault {fault.id}) takes committed batches away, and Spark's own log of batches still"
                " has them, so they never come again"
            )
        when = fault.when
        in_driver = isinstance(when, Phase) and when.phase in _OF_DRIVER and fault.do != "kill_worker"
        if fault.attempts_own and (in_driver or isinstance(when, CheckpointDone)):
            yield f"`{fault.do}` (fault {fault.id}) acts in a worker, and the driver commits"
