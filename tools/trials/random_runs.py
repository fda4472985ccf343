"""Runs the reference through random scenarios at level sim and judges every history by every invariant.

`python -m tools.trials.random_runs --runs 2500 --jobs 2`. A seed draws a scenario; one that shows nothing (its fault
had no effect, or its restarts were used up) is drawn again. Invariant: equal seeds give equal lines but for the time.
"""

from __future__ import annotations

import gc
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Final

from harness.engine.perform import judged_by_order
from harness.explore.drawing import draw_scenario
from harness.history.event import Failed
from harness.history.read import open_text
from harness.history.text import digest_of, header_line, line_of
from harness.history.verdict import Judgement, Outcome
from harness.judge.checkers.judge import uncollected
from harness.levels.sim.level import SimulatedLevel, record_of
from harness.levels.sim.run import Simulated, simulate_scenario
from harness.scenario.order import Order
from harness.sut.variant import HONEST, Variant
from harness.system.clock import monotonic_us
from harness.system.errors import Exit
from harness.system.pool import open_processes

_REDRAWS_MAX: Final = 20
_REDRAW_STEP: Final = 1_000_000_000
"""From the seed of a run that showed nothing to that of its replacement."""
_READ_BACK_EVERY: Final = 10
"""Every how many runs the history is read back to check its format, which doubles the cost of a run."""
_ASKED_FOR: Final = ("StreamElementFailed", "Fenced", "SinkLost", "StoreLost")
"""Errors with which an attempt may fail: of a call, by a successor, of the database, of the store."""


def run_seeds(seeds: Sequence[int], *, variant: Variant = HONEST) -> list[tuple[str, int, int, list[str]]]:
    """For each seed the digest of its history, its events, the draws before it, and what is wrong with it.

    Raises HarnessError if the harness overlooks a canary, and for a run that contradicts its order or itself.
    """
    SimulatedLevel().refuse_blindness(None)
    told = []
    with uncollected(frozen=True):
        for seed in seeds:
            for draw in range(_REDRAWS_MAX + 1):
                drawn = seed + draw * _REDRAW_STEP
                order = Order(scenario=draw_scenario(drawn), level="sim", seed=drawn)
                ran = simulate_scenario(order, variant=variant)
                # A variant may be wrong in what `judged_by_order` compares.
                if variant is HONEST:
                    judgement = judged_by_order(order, record_of(ran))
                else:
                    judgement = ran.judge(ran.header, ran.events)
                used_up = judgement.outcome is Outcome.UNKNOWN and ran.restarts_used_up
                if judgement.outcome is not Outcome.VACUOUS and not used_up:
                    break
            wrong = [f"seed {drawn}: {why}" for why in mistakes(ran, judgement, seed=drawn)]
            told.append((digest_of(ran.header, ran.events), len(ran.events), draw, wrong))
            if seed % 2:
                gc.collect(1)  # rarer collections are not cheaper, since garbage fills the cache
    return told


def mistakes(ran: Simulated, judgement: Judgement, *, seed: int) -> Iterator[str]:
    """Why the run is no pass: begins with the outcome, or `malformed`, `unrecorded` or `unexpected`."""
    if judgement.outcome is not Outcome.PASS:
        found = [f"{v.invariant} {one.kind}" for v in judgement.invariants for one in v.anomalies]
        found = found or [
            f"{v.invariant} {v.why}" for v in judgement.invariants if v.outcome is judgement.outcome
        ]
        yield f"{judgement.outcome}: {', '.join(dict.fromkeys(found))} {ran.error or ''}"
    if ran.tape.numbered != len(ran.events):
        yield f"unrecorded: {ran.tape.numbered} events were made and {len(ran.events)} recorded"
    for event in ran.events:
        # The operator wraps a planned failure of the user's callback.
        if (
            type(event) is Failed
            and not (error := str(event.error)).startswith(_ASKED_FOR)
            and "InjectedFailure" not in error
        ):
            yield f"unexpected: {error}"
    if seed % _READ_BACK_EVERY == 0:
        reader = open_text(b"".join([header_line(ran.header), *map(line_of, ran.events)]))
        list(reader.events())
        yield from (f"malformed: {breach.say}" for breach in reader.breaches[:1])


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints each run that is no pass and the sums; exits as `floodmark run` does."""
    parser = ArgumentParser(prog="python -m tools.trials.random_runs", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first run")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    given = parser.parse_args(arguments)
    seeds, began_us = range(given.seed, given.seed + given.runs), monotonic_us()
    with open_processes(given.jobs) as machines:
        told = [one for part in machines.map(run_seeds, seeds, most=200) for one in part]
    wrong = [why for *_, whys in told for why in whys]
    seconds = (monotonic_us() - began_us) / 1e6
    digest = sha256("".join(digest for digest, *_ in told).encode()).hexdigest()
    print(  # noqa: T201 - a command
        *wrong,
        f"{len(told)} runs, {sum(events for _, events, *_ in told)} events in {seconds:.1f} s, judging included; "
        f"drawn again because nothing was shown: {sum(draws for _, _, draws, _ in told)}; digest {digest}; "
        f"{len(wrong)} lines above. A seed's scenario: floodmark explore --print --seed N",
        sep="\n",
    )
    is_open = all(": unknown: " in why or ": vacuous: " in why for why in wrong)
    return Exit.HOLD if not wrong else Exit.UNDECIDED if is_open else Exit.VIOLATION


if __name__ == "__main__":
    sys.exit(main())
