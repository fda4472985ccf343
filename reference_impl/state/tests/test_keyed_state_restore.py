"""Claims about restoring keyed state: at any parallelism, each key once; and the page's own example."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reference_impl.errors import StateError, StateMigrationException, WrongState
from reference_impl.state import keyed_state_backend
from reference_impl.state.key_groups import KeyGroupRange
from reference_impl.state.snapshots import KeyedStateHandle
from reference_impl.state.state_descriptor import ValueStateDescriptor
from reference_impl.state.tests import snapshot_bytes
from reference_impl.state.tests.state_rig import (
    COUNT,
    SEEN,
    backend,
    backends,
    contents,
    filled,
    keyed,
    of,
    saved,
)
from tools.cases import each

ROOT = Path(keyed_state_backend.__file__).parents[2]


@each("before", [1, 3, 128])
@each("after", [1, 2, 5, 128])
def test_each_key_has_one_owner_after_a_rescale_with_its_value_s9(before: int, after: int) -> None:
    whole = saved(filled(range(60)))
    handles = [saved(one) for one in backends(before, [whole])]

    found: dict[int, tuple[Any, ...]] = {}
    for one in backends(after, handles):
        for key in tuple(one.get_keys("count")):
            assert key not in found
            found[key] = contents(one, key)

    assert found == {key: of(key) for key in range(60)}


@pytest.mark.parametrize("max_parallelism", [1, 7, 32768])
def test_a_rescale_works_at_every_maximum_s9(max_parallelism: int) -> None:
    whole = saved(filled(range(40), max_parallelism=max_parallelism))
    parallelism = min(3, max_parallelism)

    owners = backends(parallelism, [whole], max_parallelism=max_parallelism)

    assert sorted(key for one in owners for key in one.get_keys("count")) == list(range(40))


def test_a_state_that_nobody_registers_survives_the_next_snapshot_s9() -> None:
    handle = saved(filled(range(30)))
    for parallelism in (2, 3, 1):
        handles = [saved(one) for one in backends(parallelism, [handle])]  # registers nothing
        (whole,) = backends(1, handles)
        handle = saved(whole)

    assert [contents(whole, key) for key in range(30)] == [of(key) for key in range(30)]


def test_a_handle_is_cut_by_key_groups_s9() -> None:
    handle = saved(filled(range(60)))
    assert handle is not None

    parts = [
        handle.intersection(KeyGroupRange(start=start, end=end))
        for start, end in ((0, 10), (11, 99), (100, 127))
    ]

    keys = [{key for key, _, _ in part.entries("count")} for part in parts if part is not None]
    assert sum(map(len, keys)) == 60
    assert set().union(*keys) == set(range(60))
    assert (
        KeyedStateHandle(
            key_group_range=KeyGroupRange(start=0, end=3), max_parallelism=128, states={}, key_groups={}
        ).intersection(KeyGroupRange(start=4, end=9))
        is None
    )


def test_a_key_group_given_twice_is_refused_s9() -> None:
    handle = saved(filled(range(60)))

    with pytest.raises(
        StateError, match=r"operator 'counts': key group \d+ is in two of the restored handles"
    ):
        backend().restore([handle, handle])


def test_another_maximum_parallelism_is_refused_at_restore_s8() -> None:
    with pytest.raises(StateMigrationException, match="its maximum parallelism was 128 and is 256 now"):
        backend(max_parallelism=256).restore([saved(filled(range(3)))])


def test_another_type_of_keys_is_refused_at_restore_s2() -> None:
    with pytest.raises(StateMigrationException, match="its keys were any and are int now"):
        backend(key_type=int).restore([saved(filled(range(3)))])


def test_a_restore_comes_first_c45() -> None:
    one = filled(range(3))

    with pytest.raises(WrongState, match=r"restore\(\) comes first, and once"):
        one.restore([saved(filled(range(3)))])


def test_namespaces_and_odd_keys_come_back_s9() -> None:
    one, _ = keyed()
    keys: list[Any] = [1, True, (1, ("a", None)), 2**70, -0.0, "é"]
    for key in keys:
        one.set_current_key(key)
        for namespace in (None, (0, 10), "w", 2**70):
            one.get_partitioned_state(namespace, SEEN).add([key, namespace])

    restored = backend()
    restored.restore([saved(one)])

    for key in keys:
        restored.set_current_key(key)
        for namespace in (None, (0, 10), "w", 2**70):
            assert repr(restored.get_partitioned_state(namespace, SEEN).get()) == repr([[key, namespace]])


def test_a_snapshot_has_the_same_bytes_in_every_process_s8() -> None:
    """Python salts the hash of strings anew in each; nothing here may depend on it (D12)."""

    def digest(hash_seed: int) -> str:
        done = subprocess.run(
            [sys.executable, snapshot_bytes.__file__],
            cwd=ROOT,
            env={"PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
            timeout=60,
        )
        return done.stdout.decode()

    first = digest(1)

    assert digest(2) == first
    assert len(first) == 64


def test_nothing_is_had_of_a_backend_that_was_disposed_of() -> None:
    one = filled(range(3))

    one.dispose()

    assert one.num_keyed_state_entries == 0
    with pytest.raises(WrongState, match="operator 'counts': the backend was disposed"):
        one.get_or_create_keyed_state(COUNT)


def test_count_window_average_leaves_what_the_page_says_s10() -> None:
    """The state part: count and sum, cleared at every second record; crash and replay at every point."""
    inputs, descriptor = (
        [3, 5, 7, 4, 2],
        ValueStateDescriptor(name="average", value_type=tuple[int, int], default=(0, 0)),
    )

    def play(one: keyed_state_backend.KeyedStateBackend, numbers: list[int]) -> list[int]:
        state, out = one.get_partitioned_state(None, descriptor), []
        for number in numbers:
            one.set_current_key(1)
            count, total = state.value()
            state.update((count + 1, total + number))
            if count + 1 >= 2:
                out.append((total + number) // (count + 1))
                state.clear()
        return out

    for crash in range(len(inputs) + 1):
        one = backend()
        out = play(one, inputs[:crash])
        restored = backend()
        restored.restore([saved(one)])
        out += play(restored, inputs[crash:])
        restored.set_current_key(1)
        assert (out, restored.get_partitioned_state(None, descriptor).value()) == ([4, 5], (1, 2))
