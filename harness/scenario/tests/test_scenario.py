"""The model of a scenario: what it holds, what it refuses, and what stays refused beside other mistakes."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import ValidationError

from harness.faults.parts.values import duration_text
from harness.faults.registry import FAULTS
from harness.history.invariants import INVARIANTS, NOT_ON_A_HISTORY
from harness.scenario.mistakes import validated
from harness.scenario.model import At, CheckpointDone, Phase, Scenario
from harness.tests.scenario_drafts import sound
from tools.cases import each


def changed(**parts: Any) -> dict[str, Any]:
    """The sound scenario with whole parts replaced; None takes one out."""
    data = sound().model_dump(mode="json", by_alias=True) | parts
    return {name: value for name, value in data.items() if value is not None}


def with_fault(**fields: Any) -> dict[str, Any]:
    return changed(faults=[{"id": "f", **fields}], expects={})


def say(data: dict[str, Any]) -> list[str]:
    found = validated(data)
    return [] if isinstance(found, Scenario) else [f"{m.path}: {m.say}" for m in found]


NETWORK = {"link": "lookups", "for": "1s", "when": {"at": "1s"}}

WITH_UNIT: dict[str, dict[str, Any]] = {
    "rate": {"do": "bandwidth", **NETWORK},
    "share": {"do": "hot_key", "delay": "1s", "when": {"record": 3}},
    "shift": {"do": "clock_jump", "when": {"at": "1s"}},
}


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("latency without delay", with_fault(do="latency", **NETWORK), "`latency` needs `delay`"),
    (
        "latency without for",
        with_fault(do="latency", link="sink", delay="1s", when={"at": "1s"}),
        "needs `for`",
    ),
    ("down without link", with_fault(do="down", when={"at": "1s"}, **{"for": "1s"}), "`down` needs `link`"),
    ("reset with delay", with_fault(do="reset", delay="1s", **NETWORK), "`reset` takes no `delay`"),
    ("down with direction", with_fault(do="down", direction="up", **NETWORK), "takes no `direction`"),
    ("blackhole with subtask", with_fault(do="blackhole", subtask=0, **NETWORK), "takes no `subtask`"),
    (
        "jitter beyond delay",
        with_fault(do="latency", delay="1ms", jitter="2ms", **NETWORK),
        "more than `delay`",
    ),
    (
        "a link with a phase",
        with_fault(do="down", **{**NETWORK, "when": {"phase": "committed"}}),
        "cannot begin at a `phase`",
    ),
    ("kill without subtask", with_fault(do="kill_worker", when={"call": 3}), "needs `subtask`"),
    (
        "kill with for",
        with_fault(do="kill_worker", subtask=0, when={"call": 3}, **{"for": "1s"}),
        "takes no `for`",
    ),
    (
        "kill by time",
        with_fault(do="kill_worker", subtask=0, when={"at": "1s"}),
        "can begin only at a phase or a call",
    ),
    (
        "kill at another's call",
        with_fault(do="kill_worker", subtask=0, when={"call": 3, "subtask": 1}),
        "the call is of subtask 1",
    ),
    ("kill out of range", with_fault(do="kill_worker", subtask=2, when={"call": 3}), "no subtask 2"),
    (
        "trigger out of range",
        with_fault(do="down", link="sink", when={"call": 3, "subtask": 7}, **{"for": "1s"}),
        "no subtask 7",
    ),
    (
        "a checkpoint that never comes",
        with_fault(do="down", link="sink", when={"checkpoint": 12}, **{"for": "1s"}),
        "checkpoint 12 never comes",
    ),
    ("after the budget", with_fault(do="down", **{**NETWORK, "when": {"at": "60s"}}), "given up after 1m"),
    (
        "results without timeout",
        changed(operator={"mode": "ordered", "on_timeout": []}),
        "no record ever times out",
    ),
    (
        "late answers without timeout",
        changed(operator={"mode": "ordered", "cancels": False}),
        "without one no call ever times out",
    ),
    (
        "checkpoints by place and by time",
        changed(workload={"records": 400, "checkpoint_every": 40, "checkpoint_interval": "50ms"}),
        "not by both",
    ),
    (
        "no checkpoints",
        changed(workload={"records": 400, "checkpoint_every": None}),
        "there is no checkpoint",
    ),
    (
        "checkpoints by time with another sink",
        changed(workload={"records": 400, "checkpoint_interval": "50ms"}, sink="two-phase"),
        "the two-phase sink needs common ones",
    ),
    (
        "checkpoints by time of a task",
        changed(workload={"records": 400, "checkpoint_interval": "50ms"}, task={}),
        "get their barriers at fixed source positions",
    ),
    (
        "a task with a final watermark",
        changed(workload={"records": 400, "final_watermark": True}, task={}),
        "not split over its inputs",
    ),
    (
        "a task without event times",
        changed(workload={"records": 400, "timestamps": "some"}, task={}),
        "event time of every record",
    ),
    (
        "a task with one object",
        changed(workload={"records": 400, "reuses_objects": True}, task={}),
        "an object of its own",
    ),
    (
        "a task with hard back pressure",
        changed(operator={"mode": "ordered", "back_pressure": "hard"}, task={}),
        "are read only while",
    ),
    (
        "V18 with a fault",
        changed(decisive=["V18"], workload={"records": 400, "checkpoint_interval": "50ms"}),
        "nothing bounds the time",
    ),
    ("a word for a truth value", changed(workload={"records": 400, "final_watermark": 1}), "true or false"),
    ("V2 of an ordered operator", changed(decisive=["V2"]), "`V2` cannot be violated here"),
    (
        "V1 of an unordered operator",
        changed(operator={"mode": "unordered"}, decisive=["V1"]),
        "`V1` cannot be violated",
    ),
    (
        "watermarks of a workload without",
        changed(workload={"records": 400, "watermark_every": 0}, decisive=["V5"]),
        "sends no watermarks",
    ),
    (
        "checkpoints of a short workload",
        changed(workload={"records": 4, "checkpoint_every": 50}, decisive=["V10"], faults=[], expects={}),
        "ends before its first barrier",
    ),
    ("a restart in a calm run", changed(faults=[], decisive=["V11"]), "only one attempt"),
    ("evidence of nothing", changed(faults=[], expects={}, decisive=["V23"]), "asks for nothing"),
    ("a measurement", changed(decisive=["V17"]), "is a measurement"),
    ("the probe's", changed(decisive=["V22"]), "probe's history"),
    (
        "a level that a kind cannot do",
        with_fault(do="zombie", subtask=0, when={"at": "1s"}, **{"for": "1s"}),
        "`zombie` cannot be done at level spark",
    ),
    (
        "a store fault without a store",
        with_fault(do="store_torn", subtask=0, when={"checkpoint": 2}),
        "`store_torn` needs a checkpoint store",
    ),
    (
        "a phase that the sink has not",
        with_fault(do="kill_worker", subtask=0, when={"phase": "notify"}),
        "the phase `notify` never comes",
    ),
    (
        "an alignment without a task",
        with_fault(do="kill_worker", subtask=0, when={"phase": "align"}),
        "the phase `align` never comes",
    ),
    (
        "a timer without a task",
        with_fault(do="kill_worker", subtask=0, when={"phase": "timer"}),
        "the phase `timer` never comes",
    ),
    (
        "an alignment of one input",
        {**with_fault(do="kill_worker", subtask=0, when={"phase": "align"}), "task": {"inputs": 1}},
        "the barriers of one input are not aligned",
    ),
    (
        "barriers that may overtake, but do not arrive at once (t7)",
        changed(task={"alignment_timeout": "0ms", "lag": "5ms"}),
        "arrive in two inputs at once",
    ),
    (
        "idle inputs that barriers overtake (t7)",
        changed(task={"alignment_timeout": "0ms", "idle": 3}),
        "no status of an input",
    ),
    (
        "an asynchronous snapshot of what barriers overtook (t7)",
        changed(task={"alignment_timeout": "0ms", "async_snapshot": 3}),
        "is written at once, with what its inputs hold",
    ),
    (
        "an alignment where barriers arrive at once (t7)",
        {
            **with_fault(do="kill_worker", subtask=0, when={"phase": "align"}),
            "task": {"alignment_timeout": "20ms"},
        },
        "the barriers of both inputs arrive at once",
    ),
    (
        "an operator in front with soft back pressure (t7)",
        changed(operator={"mode": "ordered", "upstream": {"capacity": 2}}),
        "then waits for a slot",
    ),
    ("a lag behind nobody", changed(task={"inputs": 1, "lag": "5ms"}), "there is only input 0"),
    ("idle inputs of one", changed(task={"inputs": 1, "idle": 3}), "there is only input 0"),
    ("idle inputs with a lag", changed(task={"idle": 3, "lag": "5ms"}), "counts once it has caught up"),
    (
        "inputs that catch up before they are behind (t7)",
        changed(task={"idle": 2, "catch_up": 1}),
        "if it was idle for 3 watermarks or more",
    ),
    (
        "inputs that never catch up (t7)",
        changed(task={"idle": 4, "catch_up": 4}),
        "before the other falls idle",
    ),
    ("a task behind inputs that are never idle (t7)", changed(task={"joined": "50ms"}), "these never are"),
    (
        "results that are late, and are not told (t7)",
        changed(task={"idle": 2, "joined": "50ms"}, workload={"records": 400, "expected": "untold"}),
        "which `expected: untold` does not expect",
    ),
    (
        "substitutes that are late (t7)",
        changed(
            task={"idle": 2, "joined": "50ms"},
            operator={"mode": "ordered", "timeout": "1s", "on_timeout": [None]},
        ),
        "which `on_timeout` does not expect",
    ),
    (
        "idle inputs without watermarks",
        changed(
            task={"idle": 3, "timers": "processing-time"},
            workload={"records": 400, "watermark_every": 0},
            faults=[],
            expects={},
        ),
        "fall idle at watermarks, and there are none",
    ),
    (
        "a snapshot as long as the time between two",
        changed(task={"async_snapshot": 40}),
        "reaches the barrier of the next checkpoint",
    ),
    (
        "sessions without watermarks",
        changed(task={}, workload={"records": 400, "watermark_every": 0}, faults=[], expects={}),
        "end by watermarks, and there are none",
    ),
    (
        "a task with wild watermarks",
        changed(task={}, workload={"records": 400, "watermarks": "wild"}, faults=[], expects={}),
        "passes on only a watermark greater",
    ),
    (
        "a task with a burst",
        {**with_fault(do="watermark_burst", count=3, when={"record": 3}), "task": {}},
        "some of a burst are equal",
    ),
    ("tries without timeout", changed(operator={"mode": "ordered", "tries": 2}), "`tries` needs a `timeout`"),
    (
        "a delay between no tries",
        changed(operator={"mode": "ordered", "retry_delay": "1s"}),
        "`tries: 1` allows no second one",
    ),
    ("repeat without every", with_fault(do="down", repeat=2, **NETWORK), "`every` is missing"),
    ("every without repeat", with_fault(do="down", every="5s", **NETWORK), "`repeat` is missing"),
    (
        "again before it has healed",
        with_fault(do="down", repeat=2, every="1s", **NETWORK),
        "begins again after 1s, before it has healed",
    ),
    (
        "an unknown way",
        with_fault(do="kill_worker", subtask=0, how="gently", when={"call": 3}),
        "has no variant `gently`",
    ),
    (
        "a code that it cannot answer",
        with_fault(do="sql_error", link="sink", code=1064, when={"at": "1s"}),
        "cannot answer 1064",
    ),
    (
        "a span without length",
        with_fault(do="down", **{**NETWORK, "when": {"between": ["2s", "2s"]}}),
        "must be before the second",
    ),
    (
        "perhaps after the budget",
        with_fault(do="down", **{**NETWORK, "when": {"between": ["1s", "60s"]}}),
        "before this may begin",
    ),
    (
        "every key changes",
        with_fault(do="change_rows", count=100, when={"at": "1s"}),
        "it changes 100 keys, and there are 100: no result would be known",
    ),
    (
        "changes beside deletions",
        changed(
            faults=[
                {"id": "one", "do": "change_rows", "count": 3, "how": "delete", "when": {"at": "1s"}},
                {"id": "two", "do": "change_rows", "count": 3, "when": {"at": "2s"}},
            ],
            expects={},
        ),
        "another `change_rows` would find other keys",
    ),
    (
        "a record that never comes",
        with_fault(do="down", **{**NETWORK, "when": {"record": 401}}),
        "record 401 never comes: each source has 400",
    ),
    (
        "a record of another subtask",
        with_fault(do="idle_input", subtask=0, when={"record": 3, "subtask": 1}, **{"for": "1s"}),
        "the record is of subtask 1, the fault is of subtask 0",
    ),
    (
        "a workload fault by time",
        with_fault(do="idle_input", subtask=0, when={"at": "1s"}, **{"for": "1s"}),
        "it can begin only at a `record`",
    ),
    (
        "a server with a phase",
        with_fault(do="read_only", when={"phase": "call"}, **{"for": "1s"}),
        "acts on the server, so it cannot begin at a `phase`",
    ),
    ("an unknown invariant", changed(decisive=["V77"]), "there is no invariant `V77`"),
    ("the same twice", changed(decisive=["V8", "V8"]), "named 2 times"),
    ("nothing decisive", changed(decisive=[]), "at least 1 item"),
    ("more records than there are", changed(expects={"records": 801}), "cannot show 801"),
    ("more checkpoints than there are", changed(expects={"checkpoints": 12}), "12 checkpoints cannot be"),
    ("restores of a calm run", changed(faults=[], expects={"restores": 1}), "nothing is restored"),
]


@each(("data", "why"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_a_scenario_that_shows_nothing_or_contradicts_itself_is_refused(
    data: dict[str, Any], why: str
) -> None:
    told = say(data)

    assert len(told) == 1
    assert why in told[0]


@pytest.mark.parametrize("value", ["100", 1.0, True, None], ids=repr)
def test_only_a_whole_number_is_a_whole_number(value: object) -> None:
    assert say(changed(workload={"records": value}, expects={}, faults=[]))


@each("text", [250, "250", "1.5s", "-1s", "1h", " 1s", "1s\n", "1\u0663s", None, True], ids=repr)
def test_a_duration_without_a_plain_unit_is_refused(text: object) -> None:
    assert say(changed(budget=text) | {"budget": text})


@pytest.mark.parametrize("rate", [400, "400", "0/s", "400/m", "4.5/s"], ids=repr)
def test_a_rate_without_its_unit_is_refused(rate: object) -> None:
    assert say(changed(workload={"records": 400, "rate": rate}))


@pytest.mark.parametrize(
    ("ms", "text"), [(0, "0ms"), (1, "1ms"), (1500, "1500ms"), (2000, "2s"), (120_000, "2m")]
)
def test_a_duration_is_written_in_its_largest_whole_unit(ms: int, text: str) -> None:
    assert duration_text(ms) == text


def test_one_mistake_hides_no_other() -> None:
    """A wrong field leaves the rules of the parts that stand in force."""
    faults = [
        {"id": "a", "do": "latency", "when": {"att": "1s"}},
        {"id": "a", "do": "kill_worker", "subtask": 9, "when": {"call": 1}},
    ]

    told = "\n".join(say(changed(about="short", faults=faults, decisive=["V2"])))

    assert "at least 10" in told
    assert "`latency` needs `delay`" in told
    assert "holds no trigger" in told
    assert "both called `a`" in told
    assert "no subtask 9" in told
    assert "`V2` cannot be violated" in told


def test_an_impossible_trigger_is_told_once_and_not_once_a_form() -> None:
    told = say(with_fault(do="down", link="sink", when={"at": "1s", "call": 3}, **{"for": "1s"}))

    assert told == ["('faults', 0, 'when'): `when` holds 2 triggers (at, call), and a fault begins by one"]


def test_a_kill_at_a_call_is_a_phase_in_the_model() -> None:
    short = Scenario.model_validate(with_fault(do="kill_worker", subtask=1, when={"call": 120, "subtask": 1}))

    assert short.faults[0].when == Phase(phase="call", hit=120)


def test_a_phase_has_one_name_whatever_an_older_file_calls_it() -> None:
    names = {"snapshot-taken": "snap.end", "committed": "commit.post", "restore.mid": "restore.mid"}
    for written, meant in names.items():
        fault = with_fault(do="kill_worker", subtask=0, when={"phase": written, "hit": 2})

        assert Scenario.model_validate(fault).faults[0].when == Phase.model_validate(
            {"phase": meant, "hit": 2}
        )


@pytest.mark.parametrize(
    ("field", "written", "meant"),
    [("rate", "64kB/s", 64), ("share", "90%", 90), ("shift", "-90s", -90_000), ("shift", "60m", 3_600_000)],
)
def test_values_with_a_unit_are_integers_and_are_written_back_the_same(
    field: str, written: str, meant: int
) -> None:
    read = Scenario.model_validate(with_fault(**WITH_UNIT[field], **{field: written})).faults[0]

    assert getattr(read, field) == meant
    assert read.model_dump(mode="json", by_alias=True)[field] == written


@each(
    ("field", "written"),
    [
        ("rate", "64/s"),
        ("rate", 64),
        ("rate", "0kB/s"),
        ("share", 90),
        ("share", "101%"),
        ("shift", "1h"),
        ("shift", -5),
    ],
)
def test_values_without_their_unit_are_refused(field: str, written: object) -> None:
    (told,) = say(with_fault(**WITH_UNIT[field], **{field: written}))

    assert "is not a" in told


def test_triggers_are_told_apart_by_their_own_field() -> None:
    faults = [
        {"id": "a", "do": "down", **NETWORK},
        {"id": "b", "do": "down", **NETWORK, "when": {"checkpoint": 2}},
    ]

    read = Scenario.model_validate(changed(faults=faults))

    assert [fault.when for fault in read.faults] == [
        At.model_validate({"at": "1s"}),
        CheckpointDone(checkpoint=2),
    ]


def test_a_scenario_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        sound().operator.capacity = 3


def test_planned_checkpoints_lie_between_the_first_element_and_the_last() -> None:
    """440 positions, a barrier before every 40th: the one at 440 would stand behind the last."""
    assert (sound().workload.positions, sound().workload.checkpoints) == (440, 10)


def test_every_fault_that_a_scenario_can_name_is_described_and_has_its_fields() -> None:
    described = [(kind.about, kind.must_show, kind.by, kind.triggers) for kind in FAULTS.values()]

    assert all(all(words) for words in described)
    assert all(get_args(kind.model_fields["do"].annotation) == (name,) for name, kind in FAULTS.items())


def test_the_invariants_are_those_of_a_history() -> None:
    """V1-V16, V18-V21, V23, V24; the two that no history can be judged by have their reason."""
    numbers = [name for name in (f"V{number}" for number in range(1, 25)) if name not in NOT_ON_A_HISTORY]

    assert list(INVARIANTS) == numbers


def test_a_pitfall_that_level_sim_cannot_show_is_refused_trust8() -> None:
    with pytest.raises(ValidationError, match="pitfall: no-pool.*level sim has no such client"):
        Scenario.model_validate({**sound().model_dump(mode="json", by_alias=True), "pitfall": "no-pool"})


@pytest.mark.parametrize("keys_like", ["unicode", "composite"])
@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"task": {}}, "the state of a `task` is kept by number"),
        (
            {
                "faults": [
                    {"id": "hot", "do": "hot_key", "share": "90%", "delay": "1s", "when": {"record": 3}}
                ]
            },
            "`hot_key` asks for key 0",
        ),
    ],
    ids=["task", "hot key"],
)
def test_keys_that_are_texts_are_refused_where_numbers_are_needed_trust6(
    keys_like: str, more: dict[str, Any], told: str
) -> None:
    workload = {**sound().workload.model_dump(mode="json"), "keys_like": keys_like}

    assert any(told in line for line in say(changed(workload=workload, expects={}, **more)))
