"""The operator's rows of the performance table: its cost and its rate, each against a peer in the same run.

Answers to goals 1 to 6 of the performance guide. Invariant: a ratio compares contenders that took turns in this
process, never an earlier run; what cannot be measured here is listed with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from harness.conform.oracle.program import FLINK_VERSION, flink_jar
from harness.system.errors import FloodmarkError, WorldError
from harness.world.settings import WorldSettings
from reference_impl.elements import Record
from tools.bench.operator_rate import OperatorLoad, run_operator
from tools.bench.peer_job import PeerJob, flink_job, pyflink_job
from tools.bench.random_scenario import run_seeds
from tools.bench.recording import lookups, run_recorded, run_unrecorded
from tools.bench.rounds import Contender, Costs, take_turns
from tools.bench.row import NotMeasured, Row, ratio_row
from tools.bench.scenario_machine import run_examples
from tools.bench.snapshot_cost import snapshot_s
from tools.bench.windows import run_callback_window, run_task_window

_AT_ONCE = OperatorLoad(records=100_000, capacity=100, latency_ms=0)
_AT_ONCE_FLINK = OperatorLoad(records=2_000_000, capacity=100, latency_ms=0)
_FLINK_WARM_UPS = 2
"""Jobs before the measurement, so that the JVM has compiled the code."""
_SHORT_ROUNDS = 9
"""Rounds of short measurements, which other work on the machine disturbs most."""
_TIMED = {
    OperatorLoad(records=20_000, capacity=100, latency_ms=5): 0.95,
    OperatorLoad(records=50_000, capacity=1_000, latency_ms=20): 0.90,
}
"""Loads of at most 20,000 and 50,000 records/s, with the share of that rate that is the goal. The second has a longer
latency, because a timer of asyncio may be 1 ms late: for every contender that is a fifth of 5 ms.
"""
_PYFLINK_TIMED = OperatorLoad(records=6_000, capacity=100, latency_ms=5)
_PYFLINK_AT_ONCE = OperatorLoad(records=6_000, capacity=100, latency_ms=0)
_SEEDS = 500
_EXAMPLES = 50
_RECORDED = {
    "5 ms, 100 in flight": OperatorLoad(records=20_000, capacity=100, latency_ms=5),
    "no latency": OperatorLoad(records=20_000, capacity=100, latency_ms=0),
}
_SEEN, _SEEN_MANY, _IN_FLIGHT = 1_000, 100_000, 100

OperatorRow = Row | NotMeasured
Peer = PeerJob | str
"""A running program, or the reason why there is none."""


def operator_rows(
    *, settings: WorldSettings, pyflink: Path | None, say: Callable[[str], None]
) -> Iterator[OperatorRow]:
    """Measure all rows, in some minutes; `pyflink`: the Python of an environment that has apache-flink."""
    with ExitStack() as programs:
        say("the Flink job: compile, start, warm up")
        flink = _started(lambda: programs.enter_context(_warm_flink_job(settings)))
        groups: dict[str, Callable[[], Iterator[OperatorRow]]] = {
            "no latency, beside a task a record": _task_rows,
            "no latency, beside Flink": lambda: _flink_rows(flink),
            "real timers": lambda: _timer_rows(flink),
            "scenarios": _scenario_rows,
            "recording": _recording_rows,
            "snapshots": _snapshot_rows,
        }
        for about, rows in groups.items():
            say(about)
            yield from rows()
        say("PyFlink")
        python = _started(lambda: programs.enter_context(_pyflink_job(pyflink)))
        yield from _pyflink_rows(flink, python)


def _started(start: Callable[[], PeerJob]) -> Peer:
    try:
        return start()
    except FloodmarkError as error:
        return error.what


@contextmanager
def _warm_flink_job(settings: WorldSettings) -> Iterator[PeerJob]:
    jar = flink_jar(settings.places)
    if not jar.exists():
        raise WorldError(f"there is no Flink {FLINK_VERSION} here; run `floodmark setup --oracle`")
    with flink_job(jar, path=settings.path) as job:
        for _ in range(_FLINK_WARM_UPS):
            job.run(_AT_ONCE_FLINK)
        yield job


@contextmanager
def _pyflink_job(python: Path | None) -> Iterator[PeerJob]:
    if python is None:
        raise WorldError("no `--pyflink`: the Python of an environment with apache-flink 2.3.0")
    with pyflink_job(python) as job:
        yield job


def _a_record(run: Callable[[OperatorLoad], float], load: OperatorLoad) -> Contender:
    return lambda: run(load) / load.records


def _task_rows() -> Iterator[OperatorRow]:
    records = [Record(value=number) for number in range(_AT_ONCE.records)]
    costs = take_turns(
        {
            "operator": _a_record(partial(run_operator, records=records), _AT_ONCE),
            "task": _a_record(run_task_window, _AT_ONCE),
        },
        rounds=_SHORT_ROUNDS,
    )
    yield ratio_row(
        "no latency: what a record costs in the whole operator, against a `create_task` a record",
        costs.cost("operator", against="task"),
        rounds=_SHORT_ROUNDS,
        goal=0.45,
        limit=1.0,
        larger_is_better=False,
        detail=_costs(costs),
    )


def _flink_rows(flink: Peer) -> Iterator[OperatorRow]:
    name = f"no latency: records/s, against the local Flink {FLINK_VERSION} job (Java)"
    if isinstance(flink, str):
        yield NotMeasured(name=name, reason=flink)
        return
    costs = take_turns(
        {"operator": _a_record(run_operator, _AT_ONCE), "Flink": _a_record(flink.run, _AT_ONCE_FLINK)}
    )
    ratio = costs.rate("operator", against="Flink")
    yield ratio_row(name, ratio, goal=1 / 3, limit=1 / 7, detail=f"{_rates(costs)}; {flink.about}")


def _timer_rows(flink: Peer) -> Iterator[OperatorRow]:
    for load, share in _TIMED.items():
        contenders = {
            "operator": _a_record(run_operator, load),
            "window": _a_record(run_callback_window, load),
        }
        if isinstance(flink, PeerJob):
            contenders["Flink"] = _a_record(flink.run, load)
        costs = take_turns(contenders)
        title = f"{load.latency_ms} ms, {load.capacity:,} in flight: records/s, against"
        ratio = costs.rate("operator", against="window")
        yield ratio_row(f"{title} a bare callback window", ratio, goal=0.97, detail=_rates(costs))
        if isinstance(flink, str):
            yield NotMeasured(name=f"{title} the local Flink job (Java)", reason=flink)
        else:
            ratio = costs.rate("operator", against="Flink")
            yield ratio_row(f"{title} the local Flink job (Java)", ratio, goal=1.0, detail=_rates(costs))
        most = load.ideal_per_second
        shares = ", ".join(f"{name} {costs.rate_over(name, most).median:.2f}" for name in contenders)
        ratio = costs.rate_over("operator", most)
        yield ratio_row(f"{title} capacity / latency = {most:,.0f}", ratio, goal=share, detail=shares)


def _pyflink_rows(flink: Peer, pyflink: Peer) -> Iterator[OperatorRow]:
    timed = (
        "5 ms, 100 in flight: records/s, against PyFlink's operator; the goal is what the Java job reaches"
    )
    at_once = "no latency: records/s, against PyFlink's operator"
    reason = next((peer for peer in (pyflink, flink) if isinstance(peer, str)), None)
    if reason is not None or isinstance(pyflink, str) or isinstance(flink, str):
        yield NotMeasured(name=timed, reason=str(reason))
        yield NotMeasured(name=at_once, reason=str(reason))
        return
    costs = take_turns(
        {
            "operator": _a_record(run_operator, _PYFLINK_TIMED),
            "PyFlink": _a_record(pyflink.run, _PYFLINK_TIMED),
            "Flink": _a_record(flink.run, _PYFLINK_TIMED),
        }
    )
    yardstick = costs.rate("Flink", against="PyFlink").median
    ratio = costs.rate("operator", against="PyFlink")
    yield ratio_row(timed, ratio, goal=yardstick, detail=f"{_rates(costs)}; {pyflink.about}")
    costs = take_turns(
        {
            "operator": _a_record(run_operator, _AT_ONCE),
            "PyFlink": _a_record(pyflink.run, _PYFLINK_AT_ONCE),
        }
    )
    ratio = costs.rate("operator", against="PyFlink")
    yield ratio_row(at_once, ratio, goal=500, detail=f"{_rates(costs)}; {pyflink.about}")


def _scenario_rows() -> Iterator[OperatorRow]:
    name = "scenarios/s in virtual time, against a Hypothesis `RuleBasedStateMachine` on the same operator"
    try:
        costs = take_turns(
            {"seeds": lambda: run_seeds(_SEEDS) / _SEEDS, "machine": lambda: run_examples(_EXAMPLES)},
            rounds=_SHORT_ROUNDS,
        )
    except WorldError as error:
        yield NotMeasured(name=name, reason=error.what)
        return
    ratio = costs.rate("seeds", against="machine")
    yield ratio_row(name, ratio, goal=28, rounds=_SHORT_ROUNDS, detail=_rates(costs))
    rate = costs.rate_over("seeds", 1)
    detail = (
        "50 records, 5 watermarks, capacity 10, 2 checkpoints, a crash, a restore, 5 % timeouts, 100 choices"
    )
    yield ratio_row(
        "scenarios/s on one core, if it is idle",
        rate,
        unit="/s",
        goal=5_000,
        rounds=_SHORT_ROUNDS,
        detail=detail,
    )


def _recording_rows() -> Iterator[OperatorRow]:
    for about, load in _RECORDED.items():
        records = lookups(load.records)
        costs = take_turns(
            {
                "on": _a_record(partial(run_recorded, records=records), load),
                "off": _a_record(partial(run_unrecorded, records=records), load),
            },
        )
        yield ratio_row(
            f"{about}: records/s with every event recorded on disk, against without",
            costs.rate("on", against="off"),
            goal=0.8,
            detail=f"4 events a record; {_costs(costs)}",
        )


def _snapshot_rows() -> Iterator[OperatorRow]:
    costs = take_turns(
        {
            "few": lambda: snapshot_s(seen=_SEEN, in_flight=_IN_FLIGHT),
            "many": lambda: snapshot_s(seen=_SEEN_MANY, in_flight=_IN_FLIGHT),
        },
        rounds=_SHORT_ROUNDS,
    )
    yield ratio_row(
        f"what a snapshot costs after {_SEEN_MANY:,} records, against after {_SEEN:,}",
        costs.cost("many", against="few"),
        rounds=_SHORT_ROUNDS,
        goal=1.2,
        larger_is_better=False,
        detail=f"{_IN_FLIGHT} in flight; {_costs(costs)}",
    )


def _rates(costs: Costs) -> str:
    return ", ".join(f"{name} {costs.per_second(name):,.0f}/s" for name in costs.of)


def _costs(costs: Costs) -> str:
    return ", ".join(f"{name} {costs.microseconds(name):.2f} us" for name in costs.of)
