"""Determinism check: equal seeds in two processes with different hash seeds must give equal histories.

`python -m tools.trials.equality --runs 10000` simulates 10000 random scenarios, and a tenth as many runs of the
catalogue, in each of two processes, and prints how many histories differ. Answers to the determinism tests of
madsim and trio. Invariant: each difference is printed with its seed.
"""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Final

from harness.explore.drawing import draw_scenario
from harness.history.text import digest_of
from harness.levels.sim.run import simulate_scenario
from harness.scenario.catalogue import catalogue
from harness.scenario.file import load_many
from harness.scenario.order import Order
from harness.system.errors import Exit

_HASH_SEEDS: Final = ("1", "271828")
_SCENARIO_EVERY: Final = 10
"""One run of the catalogue per this many random runs, because its scenarios are much longer."""


def digests(seed: int, runs: int) -> Iterator[str]:
    """One line per run: scenario, seed, number of events, digest of the history."""
    for number in range(seed, seed + runs):
        yield _line(Order(scenario=draw_scenario(number), level="sim", seed=number))
    able = [scenario for scenario in load_many(sorted(catalogue())) if "sim" in scenario.levels]
    for turn in range(-(-runs // _SCENARIO_EVERY)):
        yield _line(Order(scenario=able[turn % len(able)], level="sim", seed=seed + turn // len(able)))


def _line(order: Order) -> str:
    ran = simulate_scenario(order)
    return f"{order.scenario.scenario} {order.seed} {len(ran.events)} {digest_of(ran.header, ran.events)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of this module; exits with VIOLATION if any history differs."""
    parser = ArgumentParser(prog="python -m tools.trials.equality", description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--print-digests", action="store_true", help="of this process alone")
    asked = parser.parse_args(arguments)
    if asked.print_digests:
        for line in digests(asked.seed, asked.runs):
            sys.stdout.write(line + "\n")
        return Exit.HOLD
    return _compare(asked)


def _compare(asked: Namespace) -> int:
    """Runs both processes at the same time and compares their output line by line."""
    total = differences = 0
    with ExitStack() as stack:
        processes = [stack.enter_context(_process(hash_seed, asked)) for hash_seed in _HASH_SEEDS]
        streams = [process.stdout for process in processes if process.stdout is not None]
        for one, other in zip(*streams, strict=True):
            total += 1
            if one != other:
                differences += 1
                sys.stdout.write(f"differs: {one.strip()} and {other.strip()}\n")
    failed = [process.returncode for process in processes if process.returncode]
    sys.stdout.write(
        f"{total} histories twice, hash seeds {', '.join(_HASH_SEEDS)}: {differences} differences\n"
    )
    return Exit.VIOLATION if differences or failed or not total else Exit.HOLD


def _process(hash_seed: str, asked: Namespace) -> subprocess.Popen[str]:
    words = ["--print-digests", "--runs", str(asked.runs), "--seed", str(asked.seed)]
    return subprocess.Popen(
        [sys.executable, "-m", "tools.trials.equality", *words],
        env={"PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        text=True,
    )


if __name__ == "__main__":
    sys.exit(main())
