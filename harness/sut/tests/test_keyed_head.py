"""The head counts what the fold says, and what it saves and takes over is all of one instant (S9, T15, C45)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.sut.defects import variant_of
from harness.sut.positions import TaskState, restored, saved
from harness.sut.rescaling import KeptStateAltered, decoded
from harness.sut.tests.keyed_rig import KeyedRig
from reference_impl.elements import Watermark
from reference_impl.mailbox.loops import VirtualLoop, virtual_loop
from tools.defects import mutant_named


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with virtual_loop() as made:
        yield made


FEATURES = [
    pytest.param({"ttl": "80ms"}, id="ttl"),
    pytest.param({"timers": "processing-time"}, id="processing time"),
    pytest.param({"lag": "0ms", "idle": 2}, id="idle inputs"),
    pytest.param({"lag": "0ms", "idle": 3, "catch_up": 2}, id="inputs that catch up"),
    pytest.param({"lag": "0ms", "idle": 1, "ttl": "50ms", "timers": "processing-time"}, id="all"),
]


@pytest.mark.parametrize("features", FEATURES)
@settings(max_examples=2)
@given(seed=st.integers(0, 10_000), cut=st.integers(1, 99))
def test_what_a_task_may_do_is_what_the_fold_says_also_after_a_restore_trust7(
    features: dict[str, Any], seed: int, cut: int
) -> None:
    with virtual_loop() as loop:
        rig = KeyedRig(loop, seed=seed, workload={"rate": "100/s"}, **features)
        rig.open()
        rig.read_to(cut)
        kept = json.dumps([saved(element) for element in rig.snapshot()])
        rig = KeyedRig(loop, seed=seed, workload={"rate": "100/s"}, **features)
        rig.open([restored(element) for element in json.loads(kept)], position=cut)
        rig.read_to(len(rig.elements))

    assert rig.stamped == rig.stamps


@pytest.mark.parametrize(
    ("features", "defect"),
    [
        ({"ttl": "300ms"}, "ttl-never-ends"),
        ({"ttl": "300ms"}, "ttl-begins-anew-at-restore"),
        ({"timers": "processing-time"}, "processing-timers-lost-on-restore"),
        ({"lag": "0ms", "idle": 2}, "idle-input-counts"),
        ({"lag": "0ms", "idle": 1}, "all-idle-lets-nothing-out"),
        ({"lag": "0ms", "idle": 4, "catch_up": 3}, "woken-input-pulls-back"),
    ],
)
def test_a_task_with_that_defect_does_otherwise_than_the_fold_trust7(
    loop: VirtualLoop, features: dict[str, Any], defect: str
) -> None:
    parts, workload = variant_of(mutant_named(defect)).keyed, {"rate": "100/s", "keys": 12}
    rig = KeyedRig(loop, parts=parts, workload=workload, **features)
    rig.open()
    rig.read_to(50)
    kept = rig.snapshot()
    rig = KeyedRig(loop, parts=parts, workload=workload, **features)
    rig.open(kept, position=50)

    rig.read_to(len(rig.elements))

    assert rig.stamped != rig.stamps


def test_an_asynchronous_snapshot_holds_nothing_of_what_comes_meanwhile_c7_trust7(loop: VirtualLoop) -> None:
    rig = KeyedRig(loop, async_snapshot=6)
    rig.open()
    rig.read_to(len(rig.elements))

    assert rig.stamped == rig.stamps
    assert set(rig.read_ahead) == {6}
    for position, kept in rig.kept:
        again = KeyedRig(loop, async_snapshot=6)
        again.open(kept, position=position)
        again.read_to(len(rig.elements))
        assert again.stamped == rig.stamps


def test_one_that_shares_its_state_holds_it_trust7(loop: VirtualLoop) -> None:
    parts = variant_of("tools.defects:state_shared_with_snapshot").keyed
    rig = KeyedRig(loop, parts=parts, async_snapshot=6)
    rig.open()
    rig.read_to(len(rig.elements))

    (position, kept), *_ = rig.kept
    again = KeyedRig(loop, parts=parts, async_snapshot=6)
    again.open(kept, position=position)
    again.read_to(len(rig.elements))

    assert again.stamped != rig.stamps


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), gap_ms=st.integers(10, 300))
def test_each_record_is_stamped_with_what_the_fold_says(seed: int, gap_ms: int) -> None:
    with virtual_loop() as loop:
        rig = KeyedRig(loop, seed=seed, gap=f"{gap_ms}ms")
        rig.open()

        rig.read_to(len(rig.elements))

    assert rig.stamped == rig.stamps


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), cuts=st.lists(st.integers(1, 99), min_size=1, max_size=4))
def test_what_is_restored_goes_on_as_if_nothing_had_been(seed: int, cuts: list[int]) -> None:
    """Through JSON, as the sinks store it; what one attempt had not emitted the next one holds again (S9, T15)."""
    with virtual_loop() as loop:
        rig = KeyedRig(loop, seed=seed)
        rig.open()
        for position in sorted(set(cuts)):
            rig.read_to(position)
            kept = json.dumps([saved(element) for element in rig.snapshot()])
            rig = KeyedRig(loop, seed=seed)
            rig.open([restored(element) for element in json.loads(kept)], position=position)
        rig.read_to(len(rig.elements))

    assert rig.stamped == rig.stamps


def test_a_snapshot_is_not_changed_by_what_comes_after_it_c7(loop: VirtualLoop) -> None:
    rig = KeyedRig(loop)
    rig.open()
    rig.read_to(40)
    state, *_ = rig.snapshot()
    text = state.text

    rig.read_to(80)

    assert state == TaskState(text=text)
    assert rig.snapshot()[0] != state


def test_the_state_stands_in_front_of_the_elements(loop: VirtualLoop) -> None:
    rig = KeyedRig(loop)
    rig.open()
    rig.read_to(20)

    state, *elements = rig.snapshot()

    assert isinstance(state, TaskState)
    assert elements == rig.lookups.taken


def test_before_its_first_record_a_task_keeps_nothing_c10(loop: VirtualLoop) -> None:
    rig = KeyedRig(loop)
    rig.open()

    kept = decoded(rig.snapshot()[0].text)

    assert (kept.keyed, kept.timers) == (None, None)


def test_a_snapshot_without_state_is_none_of_this_task(loop: VirtualLoop) -> None:
    with pytest.raises(AssertionError, match="begins with its state"):
        KeyedRig(loop).open([Watermark(timestamp=3, position=1)])


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda text: text[:-6], id="torn"),
        pytest.param(lambda text: f"{'1' if text[0] == '0' else '0'}{text[1:]}", id="altered"),
        pytest.param(lambda text: "", id="empty"),
        pytest.param(lambda text: f"{text}é", id="foreign"),
    ],
)
def test_a_state_that_was_altered_on_its_way_is_refused(
    loop: VirtualLoop, damage: Callable[[str], str]
) -> None:
    rig = KeyedRig(loop)
    rig.open()
    rig.read_to(20)
    text = rig.snapshot()[0].text

    with pytest.raises(KeptStateAltered, match="torn"):
        KeyedRig(loop).open([TaskState(text=damage(text))])


def test_timers_fire_before_the_watermark_that_releases_them_leaves_t12(loop: VirtualLoop) -> None:
    rig = KeyedRig(loop)
    rig.open()
    rig.read_to(len(rig.elements))

    sessions = sum(
        max(stamp["session"] for number, stamp in rig.stamps.items() if _key(rig, number) == key) - 1
        for key in range(5)
    )

    assert rig.phases.reached.count("timer") >= sessions > 0


def _key(rig: KeyedRig, number: int) -> int:
    key = next(lookup.key for lookup, _ in rig.elements.records if lookup.id == number)
    assert isinstance(key, int)
    return key


def test_at_the_end_the_lookups_drain_and_everything_is_closed_m45(loop: VirtualLoop) -> None:
    rig = KeyedRig(loop)
    rig.open()
    rig.read_to(len(rig.elements))

    rig.end()
    rig.chain.close_all_operators()

    assert rig.lookups.ended
    assert rig.lookups.closed


def test_the_lookups_stand_behind_the_operator_with_state_m25(loop: VirtualLoop) -> None:
    rig = KeyedRig(loop)
    rig.open()

    assert rig.lookups.parts["executor"].priority == 1
