"""What a run recorded, compared with what the harness itself knows: expectations that were claimed, the seed's source.

Answers to a second signature on a form. Invariant: a contradiction is a defect of the harness, never a result; it is
looked for in what the attempts recorded, with a source that is drawn anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import UNSET

from harness.database.stored_tables import ROWS_OF
from harness.faults.parts.parts import SINK_FORMS
from harness.history.event import Event, In, TableRead, Wm
from harness.history.header import Expects, Header
from harness.history.values import told_watermark
from harness.scenario.claims import AUDIT, OUTPUTS, own_table
from harness.scenario.order import Order
from harness.scenario.plan import Expected
from harness.scenario.workloads.lookups import (
    LookupSource,
    MarkOfTime,
    changing_keys,
    expected_results,
    records_of_all,
)
from harness.scenario.workloads.shape import key_of, told_key
from harness.system.errors import HarnessError

if TYPE_CHECKING:
    from harness.engine.level import RunRecord


def refuse_other_record(order: Order, record: RunRecord) -> None:
    """Raises HarnessError if the record's claims, seed or counts are not those of `order`."""
    _refuse_other_claims(order, record.header)
    _refuse_other_source(order, record.events)
    # The outputs of a finished run were read: then SQL counted them, too.
    is_uncounted = record.error is None and "rows" not in record.accounting
    if is_uncounted and any(type(event) is TableRead and event.table == OUTPUTS for event in record.events):
        _refuse("the outputs were read, and SQL did not count them")


def _refuse_other_source(order: Order, events: Sequence[Event]) -> None:
    """Raises HarnessError if a record or watermark is not the one that the order's seed gives at its position.

    Not with a planted defect, which may be one of the source, and not with two inputs, which are read in any order.
    """
    scenario = order.scenario
    if order.mutant is not None or scenario.task is not None:
        return
    if scenario.rescales:
        _refuse_other_records(order, events)
        return
    sources: dict[int, LookupSource] = {}
    own = scenario.own_records
    for event in events:
        if type(event) is not In and type(event) is not Wm:
            continue
        source = sources.get(event.s)
        if source is None:
            source = sources[event.s] = LookupSource(
                workload=scenario.workload, seed=order.seed, subtask=event.s, faults=scenario.faults, own=own
            )
        if not _is_of(source, event):
            _refuse(
                f"subtask {event.s} took at position {event.pos} what the source of seed {order.seed}"
                " does not have there"
            )


def _refuse_other_records(order: Order, events: Sequence[Event]) -> None:
    """As `_refuse_other_source`, where positions depend on where the subtasks were cut: of each record alone."""
    records = records_of_all(order.scenario.workload, seed=order.seed)
    for event in events:
        if type(event) is In:
            known = records[event.id] if type(event.id) is int and 0 <= event.id < len(records) else None
            if known is None or (told_key(known[0].key), known[1]) != (event.key, event.ts):
                _refuse(
                    f"subtask {event.s} took record {event.id}, which the source of seed {order.seed} has not so"
                )


def _refuse(message: str) -> NoReturn:
    raise HarnessError(message, fix="please report it, with the run's history")


def _is_of(source: LookupSource, event: In | Wm) -> bool:
    if not 0 <= event.pos < len(source):
        return False
    element = source[event.pos]
    if isinstance(element, MarkOfTime):
        return type(event) is Wm and event.w == told_watermark(element.timestamp)
    lookup, timestamp = element
    given = (lookup.id, told_key(lookup.key), timestamp)
    return type(event) is In and (event.id, event.key, event.ts) == given


def _refuse_other_claims(order: Order, header: Header) -> None:
    """Raises HarnessError if the header claims less, or of another operator, than the scenario says.

    It reads the parsed header and the scenario, and shares nothing with `harness.scenario.claims`, which wrote it.
    """
    said = [
        f"the header claims {name} {found!r}, the scenario says {wanted!r}"
        for name, (found, wanted) in _claims(order, header).items()
        if found != wanted
    ]
    if said:
        _refuse("; ".join(said))


def _claims(order: Order, header: Header) -> Mapping[str, tuple[object, object]]:
    """For each claim: what the header says and what it must say."""
    scenario, told = order.scenario, header.operator
    operator, expects = scenario.operator, header.expects or Expects()
    is_users = ":" in order.sut
    workload = scenario.workload
    by_time = workload.checkpoint_interval is not None and not scenario.faults
    return {
        "mode": (told.mode, "ordered" if operator.mode == "ordered" else "unordered"),
        "order by key": (told.per_key_order, operator.mode == "keyed"),
        "capacity": (told.capacity, operator.capacity),
        "timeout": (told.timeout_ms, 0 if operator.on_timeout == "nothing" else operator.timeout),
        "errors where they arise": (header.raised, True),
        "what a timeout yields": (
            header.substitute,
            tuple(operator.on_timeout) if isinstance(operator.on_timeout, list) else None,
        ),
        "what a failed call becomes": (told.on_error == "dead", operator.on_error == "dead-letter"),
        "what a failed timeout becomes": (
            told.on_timeout == "dead",
            operator.on_timeout == "dead-letter"
            or (operator.on_timeout, operator.on_error) == ("fail", "dead-letter"),
        ),
        "tries": (told.max_tries, operator.tries),
        "retries": (told.retry is not None, operator.tries > 1),
        "sink": (
            header.sink,
            "rollback" if order.runner == "stateful" else SINK_FORMS[scenario.sink].claimed_as,
        ),
        "effects": (header.effects, "outputs" if scenario.effects is None else "records"),
        "a time to recover": (header.bounds.recover > 0, True),
        "a checkpoint gap": (
            header.bounds.checkpoint_gap is not None,
            by_time or workload.checkpoint_gap is not None,
        ),
        "barriers": (
            header.barrier_every,
            workload.checkpoint_every if order.runner == "continuous" else None,
        ),
        "kept checkpoints": (
            header.keeps is not None,
            order.runner == "continuous" and not scenario.has_two_servers,
        ),
        "fencing": (header.fenced, True),
        "a fixed source": (header.fixed_source, order.mutant is not None),
        "tables": (sorted(header.tables or ()), sorted(_tables(order))),
        "explained failures": (header.explained is not None, True),
        "known results": (header.expect_from == "given", _knows_results(order))
        if not is_users
        else (header.expect_from == "none", order.expected == "none"),
        "decisive": (
            sorted(header.decisive or ()),
            sorted(set(scenario.decisive) - ({"V12", "V13"} if order.runner == "stateful" else set())),
        ),
        "faults": (sorted(expects.faults), sorted(fault.id for fault in scenario.faults)),
        "least records": (expects.records, scenario.expects.records),
        "least checkpoints": (expects.checkpoints, scenario.expects.checkpoints),
        "least restores": (expects.restores, scenario.expects.restores),
    }


def refuse_other_values(
    order: Order,
    header: Header,
    rows: Sequence[list[object]],
    events: Sequence[Event],
    *,
    expected: Expected | None,
) -> None:
    """Raises HarnessError if header or events tell other values than the rows, or a user's `expected`, give.

    Versions must be claimed exactly where rows change and answers show which they are. A user's lookup shows it if its
    answers depend on the key alone, as `expected` was told.
    """
    shows = ":" not in order.sut or (expected is not None and expected.by_key)
    wanted = bool(order.scenario.changing) and shows
    if header.versions != wanted:
        _refuse(f"the header claims versions {header.versions!r}, the scenario says {wanted!r}")
    refuse_other_expectations(order, rows, events, expected=expected)


def _tables(order: Order) -> list[str]:
    """The names of the tables that are read after the run."""
    scenario = order.scenario
    if order.runner == "stateful":
        return [name for name in ROWS_OF if name != AUDIT]
    if scenario.effects is None:
        return list(ROWS_OF)
    return [*(name for name in ROWS_OF if name != AUDIT), own_table(scenario.effects)]


def refuse_other_expectations(
    order: Order, rows: Sequence[list[object]], events: Sequence[Event], *, expected: Expected | None = None
) -> None:
    """Raises HarnessError if a record is not told with the results that the looked-up `rows` of its key give.

    Of a user's lookup: with those of `expected`. A keyed task stamps its results, so more fields than those of the row
    are allowed. A record has none if its results are not known, as of a key whose rows change.
    """
    results, changing = expected_results(rows), changing_keys(order.scenario, rows)
    knows_results = _knows_results(order)
    known = None if expected is None else expected.known()
    for event in events:
        if type(event) is not In:
            continue
        key = key_of(event.key)
        wanted: Sequence[Any] | None = results.get(key, []) if knows_results and key not in changing else None
        if known is not None:
            wanted = known(event.id, key)
        if event.expect is UNSET:
            if wanted is not None:
                _refuse(f"record {event.id} has no expected results, though its rows give {wanted}")
        elif wanted is None:
            _refuse(f"record {event.id} is told with results, which are not known")
        elif event.expect != wanted and not _are_stamped(event.expect, wanted):
            _refuse(f"record {event.id} is told with the results {event.expect}, its rows give {wanted}")


def _knows_results(order: Order) -> bool:
    return ":" not in order.sut and order.scenario.workload.expected != "untold"


def _are_stamped(told: Sequence[object], wanted: Sequence[object]) -> bool:
    return len(told) == len(wanted) and all(
        isinstance(one, dict) and (row if isinstance(row, dict) else {"value": row}).items() <= one.items()
        for one, row in zip(told, wanted, strict=True)
    )
