"""A user's file of records: what is read, what is refused with its line, and who gets which record."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.faults.parts.own_records import dealt, read_records
from harness.scenario.file import ScenarioProblems, apply_settings, load
from harness.scenario.settings import with_asked_files
from harness.scenario.workloads.lookups import LookupSource, MarkOfTime
from harness.scenario.workloads.shape import OwnLookup, marks_below
from harness.sut.positions import restored, saved
from harness.system.errors import UsageError
from reference_impl.elements import Record
from tools.cases import each

SCENARIO = """
scenario: mine
about: The records of a file are looked up.
operator: {mode: ordered}
workload: {subtasks: 3, watermark_every: 2}
records: orders.jsonl
decisive: [V1]
expects: {records: 500}
"""


def file(folder: Path, *lines: str) -> Path:
    path = folder / "orders.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_a_record_has_its_fields_u4(tmp_path: Path) -> None:
    lines = (
        '{"id": 9, "key": ["a", 1], "ts": 5, "service_ms": 3, "amount": 2}',
        "",
        '{"id": 4, "key": "b", "ts": null}',
    )

    first, second = read_records(file(tmp_path, *lines))

    assert (first.id, first.key, first.ts, first.service_ms) == (9, ["a", 1], 5, 3)
    assert first.fields == {"ts": 5, "amount": 2}
    assert (second.id, second.key, second.ts, second.service_ms) == (4, "b", None, None)


def test_without_ids_records_are_counted_u4(tmp_path: Path) -> None:
    assert [record.id for record in read_records(file(tmp_path, '{"key": 7}', '{"key": 7}'))] == [0, 1]


@each(
    ("lines", "says"),
    [
        (['{"key": 1}', "{"], "orders.jsonl:2: this is no JSON ("),
        (['{"key": 1}', "[1]"], "orders.jsonl:2: this is no JSON object"),
        (['{"key": NaN}'], "orders.jsonl:1: this is no JSON ("),
        (['{"id": 1}'], "orders.jsonl:1: it has no field `key`"),
        (['{"id": 1, "key": 1}', '{"id": 1, "key": 2}'], "orders.jsonl:2: id 1 stands in line 1 already"),
        (['{"id": 1, "key": 1}', '{"key": 2}'], "orders.jsonl:2: some records have `id`, and some have none"),
        (['{"key": 1}', '{"key": 2, "ts": 1}'], "orders.jsonl:2: some records have `ts`"),
        (['{"key": 1.5}'], "orders.jsonl:1: `key` is 1.5"),
        (['{"key": true}'], "orders.jsonl:1: `key` is True"),
        (['{"key": []}'], "orders.jsonl:1: `key` is []"),
        (['{"id": "a", "key": 1}'], "orders.jsonl:1: `id` is 'a'"),
        (['{"id": 9223372036854775808, "key": 1}'], "orders.jsonl:1: `id` is 9223372036854775808"),
        (['{"key": 1, "service_ms": -1}'], "orders.jsonl:1: `service_ms` is -1"),
        (['{"key": 1, "fields": 1}'], "orders.jsonl:1: a record has `fields` already"),
        ([], "orders.jsonl: it holds no record"),
    ],
)
def test_a_mistake_is_told_with_its_line_u4(tmp_path: Path, lines: list[str], says: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_records(file(tmp_path, *lines))

    assert says in refused.value.what
    assert refused.value.fix


def test_a_file_that_is_not_there_is_a_usage_error_u4(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_records(tmp_path / "none.jsonl")


def test_records_of_one_key_have_one_subtask_and_keep_their_order_u4(tmp_path: Path) -> None:
    records = read_records(file(tmp_path, *[f'{{"key": {n % 7}}}' for n in range(70)]))

    hands = dealt(records, subtasks=3)

    assert sorted(record.id for hand in hands for record in hand) == list(range(70))
    assert all([record.id for record in hand] == sorted(record.id for record in hand) for hand in hands)
    owners = {
        record.key: place for place, hand in enumerate(hands) for record in hand if type(record.key) is int
    }
    assert all(owners[record.key] == place for place, hand in enumerate(hands) for record in hand)  # type: ignore[index]
    assert len(set(owners.values())) > 1


def test_a_scenario_names_its_files_from_where_it_stands_and_has_as_many_records_u4(tmp_path: Path) -> None:
    file(tmp_path, *[f'{{"key": {n % 7}, "ts": {n}, "city": "c{n}"}}' for n in range(70)])
    (tmp_path / "mine.yaml").write_text(SCENARIO)

    scenario = load(tmp_path / "mine.yaml")

    own = scenario.own_records
    assert own is not None
    assert scenario.records == str(tmp_path / "orders.jsonl")
    assert scenario.expects.records == 70
    sources = [LookupSource(workload=scenario.workload, seed=1, subtask=s, own=own) for s in range(3)]
    assert scenario.workload.records == max(len(source.records) for source in sources)
    assert sum(len(source.records) for source in sources) == 70
    lookup, ts = max(sources, key=lambda source: len(source.records)).records[0]
    assert isinstance(lookup, OwnLookup)
    assert (lookup.city, ts) == (f"c{lookup.id}", lookup.id)
    with pytest.raises(
        AttributeError, match=r"record \d+ has no field `town`; its line has id, key, ts, city"
    ):
        _ = lookup.town
    assert restored(saved(Record(value=lookup, timestamp=ts, position=0))) == Record(
        value=lookup, timestamp=ts, position=0
    )


def test_no_record_of_a_file_is_older_than_a_watermark_before_it_u4(tmp_path: Path) -> None:
    times = [5, 3, 9, 2, 8, 20, 11, 30, 31]
    records = read_records(file(tmp_path, *[f'{{"key": 7, "ts": {ts}}}' for ts in times]))
    (tmp_path / "mine.yaml").write_text(SCENARIO)
    scenario = load(tmp_path / "mine.yaml")

    found = [
        [source[place] for place in range(len(source))]
        for source in (
            LookupSource(workload=scenario.workload, seed=1, subtask=s, own=records) for s in range(3)
        )
    ]
    (elements,) = [one for one in found if one]

    reached = -1
    for element in elements:
        if isinstance(element, MarkOfTime):
            assert element.timestamp >= reached
            reached = element.timestamp
        else:
            assert element[1] is not None
            assert element[1] > reached
    assert marks_below(times, every=2) == [1, 7, 10, 30]


def test_the_command_line_names_files_in_place_of_the_scenarios_u4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file(tmp_path, '{"key": 1}')
    (tmp_path / "mine.yaml").write_text(SCENARIO)
    (tmp_path / "other.jsonl").write_text('{"key": 1}\n' * 5)
    scenario = load(tmp_path / "mine.yaml")

    asked = with_asked_files(scenario, schema=None, data=(), records=Path("other.jsonl"))

    assert (asked.records, asked.workload.records) == (str(tmp_path / "other.jsonl"), 5)
    assert with_asked_files(scenario, schema=None, data=(), records=None) is scenario
    assert apply_settings(asked, ["workload.subtasks=1"]).workload.records == 5
    with pytest.raises(UsageError, match="`data` is of a table that `schema` makes"):
        with_asked_files(scenario, schema=None, data=(Path("a.csv"),), records=None)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("effects: {table: a, id: b}", "`effects` is of a table that `schema` makes"),
        ("task: {}", "a `task` counts the records that the seed draws"),
        ("effects: {table: 'a b', id: b}\nschema: a.sql", "effects.table"),
        (
            "faults: [{id: hot, do: hot_key, share: 90%, delay: 5ms, when: {record: 2}}]",
            "`hot_key` changes what the seed draws",
        ),
        (
            "schema: a.sql\nfaults: [{id: c, do: change_rows, count: 1, when: {at: 1s}, for: 1s}]",
            "`change_rows` acts on the table `customer`",
        ),
    ],
)
def test_what_own_files_cannot_go_with_is_a_problem_of_the_scenario_u4(
    tmp_path: Path, more: str, says: str
) -> None:
    file(tmp_path, *['{"key": 1}'] * 9)
    (tmp_path / "mine.yaml").write_text(f"{SCENARIO}{more}\n")

    with pytest.raises(ScenarioProblems) as refused:
        load(tmp_path / "mine.yaml")

    assert says in str(refused.value)
