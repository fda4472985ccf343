"""A rescale: state goes to the subtasks to which the real Flink 2.3.0 gives it, item by item and key by key.

Asked of Flink is `RoundRobinOperatorStateRepartitioner` for elements in flight (a split list, as those of the
`AsyncWaitOperator`), for the places of partitions (union) and for settings (broadcast), and `KeyGroupRangeAssignment`
for keys. In a share the items of one old subtask have one order in both; of several old subtasks Flink gives the order
of a hash map. `python -m harness.conform.oracle.tests.test_redistribution 20000` compares more.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from harness.conform.oracle.program import REDISTRIBUTION, find_oracle
from harness.sut.rescaling import KEY_GROUPS
from harness.system.choices import Draw, fresh_seed
from harness.system.errors import WorldError
from harness.world.settings import WorldSettings
from reference_impl.state.key_groups import (
    assign_key_to_parallel_operator,
    assign_to_key_group,
    compute_key_group_range_for_operator_index,
)
from reference_impl.state.operator_state import RoundRobinOperatorStateRepartitioner
from reference_impl.state.snapshots import Mode, OperatorStateHandle, OperatorStatePartitions

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300)]

RESCALES = 1_000
MODES = {"in flight": Mode.SPLIT_DISTRIBUTE, "places of partitions": Mode.UNION, "settings": Mode.BROADCAST}

Json = dict[str, Any]


def drawn_splits(seed: int, count: int) -> list[Json]:
    """Of each old subtask how many items it had of each state; also the same parallelism."""
    draw = Draw(seed, "splits of operator state")
    questions: list[Json] = []
    for _ in range(count):
        old = draw.between(1, 8)
        states = {
            name: [mode.value, [draw.between(0, draw.one_of(1, 3, 30)) for _ in range(old)]]
            for name, mode in MODES.items()
        }
        settings = draw.between(1, 3)
        states["settings"][1] = [settings] * old
        questions.append({"to": draw.between(1, 8), "states": states})
    return questions


def drawn_keys(seed: int, count: int) -> list[Json]:
    draw = Draw(seed, "keys of a rescale")
    questions: list[Json] = []
    for _ in range(count):
        groups = draw.one_of(KEY_GROUPS, KEY_GROUPS, 128, 1000)
        keys = [
            draw.between(-(2**31), 2**31 - 1)
            if draw.chance(500)
            else f"{draw.one_of('é', 'key ', '😀')}{draw.between(0, 9999)}"
            for _ in range(20)
        ]
        questions.append({"to": draw.between(1, min(groups, 12)), "groups": groups, "keys": keys})
    return questions


def flinks_answers(command: Sequence[str], questions: list[Json]) -> list[Any]:
    asked = "".join(json.dumps(question) + "\n" for question in questions)
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=True, timeout=240)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(questions)
    return answers


def our_shares(question: Json) -> list[Json]:
    """As Flink's answer, with our items named by old subtask and place."""
    old = max(len(counts) for _, counts in question["states"].values())
    handles = []
    for subtask in range(old):
        states = {}
        for name, (_, counts) in question["states"].items():
            mode = MODES[name]
            items: Any = [f"{subtask} {place}".encode() for place in range(counts[subtask])]
            if mode is Mode.BROADCAST:
                items = [(item, b"") for item in items]
            states[name] = OperatorStatePartitions(mode=mode, items=tuple(items))
        handles.append(OperatorStateHandle(states=states))
    given = RoundRobinOperatorStateRepartitioner().repartition_state(handles, old, question["to"])
    return [
        {
            name: [] if handle is None or name not in handle.states else _named(handle.states[name].items)
            for name in question["states"]
        }
        for handle in given
    ]


def _named(items: Sequence[Any]) -> list[list[int]]:
    keys = [item[0] if isinstance(item, tuple) else item for item in items]
    return [[int(word) for word in key.split()] for key in keys]


def in_order_of_the_old(share: Json) -> Json:
    """Flink's items of several old subtasks come in any order, those of one in theirs."""
    return {name: sorted(items, key=lambda item: item[0]) for name, items in share.items()}


def differences(command: Sequence[str], seed: int, count: int) -> list[Json]:
    splits, keys = drawn_splits(seed, count), drawn_keys(seed, count)
    found: list[Json] = []
    for question, flinks in zip(splits, flinks_answers(command, splits), strict=True):
        if [in_order_of_the_old(share) for share in flinks] != our_shares(question):
            found.append({**question, "flink": flinks, "ours": our_shares(question)})
    for question, flinks in zip(keys, flinks_answers(command, keys), strict=True):
        groups, to = question["groups"], question["to"]
        own = [
            [assign_to_key_group(key, groups), assign_key_to_parallel_operator(key, groups, to)]
            for key in question["keys"]
        ]
        ranges = [compute_key_group_range_for_operator_index(groups, to, index) for index in range(to)]
        if flinks != [own, [[one.start, one.end] for one in ranges]]:
            found.append({**question, "flink": flinks, "ours": own})
    return found


def test_each_subtask_gets_after_a_rescale_what_flink_gives_it_a64() -> None:
    try:
        command = find_oracle(WorldSettings.from_environment(), main=REDISTRIBUTION)
    except WorldError as error:
        pytest.skip(str(error))

    assert differences(command, fresh_seed(), RESCALES) == []


def main() -> int:
    """Compare as many splits, and as many assignments of keys, as the argument says."""
    count, seed = int(sys.argv[1]), fresh_seed()
    found = differences(find_oracle(WorldSettings.from_environment(), main=REDISTRIBUTION), seed, count)
    told = [json.dumps(one) for one in found[:5]]
    told.append(f"seed {seed}: {count} splits and {count} assignments of keys, {len(found)} differ")
    sys.stdout.write("\n".join(told) + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
