"""The experiment of the articles, over many draws: how long ten lookups take in each form.

Answers to the comparison of synchronous, thread-pooled and asynchronous lookups that articles on Flink's asynchronous
I/O show for one draw. Invariant: within a draw every form gets the same records; the order of the forms rotates from
draw to draw; a draw counts only if each form returned every record's own row once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from harness.database.schema import prepare_database, run_database
from harness.system.choices import Draw
from harness.system.errors import HarnessError
from harness.world.world import World
from tools.bench.lookup_forms import FORMS, Asked, Emission, opened_forms

_DATABASE = "floodmark_experiments"
_WARM_UP = 3
"""Draws that do not count, in which connections are made and code is first run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentPlan:
    """The size of the experiment."""

    draws: int = 200
    records: int = 10
    at_once: int = 10
    """Connections, threads and slots; the synchronous form has one connection."""
    service_ms: tuple[int, int] = (1, 3)
    """The shortest and longest service time of a record; whole milliseconds, evenly distributed."""
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """One form's times for the records of one draw, in ms since the first record."""

    total_ms: float
    first_ms: float
    mean_ms: float
    """The mean time to the emission of a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnTimes:
    """One draw, and each form's times for it."""

    service_ms: Sequence[int]
    of: Mapping[str, Times]


def experiment(world: World, plan: ExperimentPlan, *, say: Callable[[str], None]) -> Sequence[DrawnTimes]:
    """Run every draw in every form, through the world's link for lookups, without faults."""
    with run_database(world.root.at(world.direct, ""), name=_DATABASE):
        rows = [[key, f"customer {key}", "", 1] for key in range(plan.records)]
        prepare_database(world.root.at(world.direct, _DATABASE), subtasks=1, rows=rows)
        endpoint = world.app.at(world.links["lookups"], _DATABASE)
        with opened_forms(endpoint, at_once=plan.at_once) as forms:
            drawn = []
            for number, records in enumerate(_draws(plan)):
                if number >= _WARM_UP and not (number - _WARM_UP) % 50:
                    say(f"draw {number - _WARM_UP} of {plan.draws}")
                turn = number % len(FORMS)
                order = [*FORMS[turn:], *FORMS[:turn]]
                times = {name: times_of(name, records, forms[name].run(records)) for name in order}
                drawn.append(DrawnTimes(service_ms=[asked.service_ms for asked in records], of=times))
    return drawn[_WARM_UP:]


def _draws(plan: ExperimentPlan) -> Iterator[Sequence[Asked]]:
    draw = Draw(plan.seed, "service times of an experiment")
    low, high = plan.service_ms
    for _ in range(_WARM_UP + plan.draws):
        yield [Asked(key=key, service_ms=draw.between(low, high)) for key in range(plan.records)]


def times_of(form: str, records: Sequence[Asked], emissions: Sequence[Emission]) -> Times:
    """The times of a form. Raises HarnessError if it did not return every record's row once."""
    got = sorted((emission.key, emission.name) for emission in emissions)
    if got != [(asked.key, f"customer {asked.key}") for asked in records]:
        message = f"{form} gave {got} for {len(records)} lookups"
        raise HarnessError(message, fix="please report it, with the command and its seed")
    at_ms = [emission.at_us / 1000 for emission in emissions]
    return Times(total_ms=max(at_ms), first_ms=min(at_ms), mean_ms=mean(at_ms))
