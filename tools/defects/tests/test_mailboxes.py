"""Flink's own mailboxes: each differs from ours on a small script, and keeps what every mailbox must keep."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.mailbox.mailbox import Mail, Mailbox, MailboxExecutor
from reference_impl.mailbox.processor import MailboxProcessor
from reference_impl.tests.rig import quickly, watched_loop
from tools.defects.mailboxes import MailboxDefect, MailboxOfEra3
from tools.defects.tests.wrong_parts import wrong_part

Script = Callable[[Mailbox], list[str]]


def put(
    box: Mailbox, what: str, priority: int = 0, *, urgent: bool = False, deferrable: bool = False
) -> None:
    box.put(Mail(lambda: None, priority, what, deferrable), urgent=urgent)


def put_from_afar(box: Mailbox, what: str) -> None:
    """Urgent, from a foreign thread, and arrived."""
    thread = threading.Thread(target=put, args=(box, what), kwargs={"urgent": True})
    thread.start()
    thread.join(timeout=60)
    box.let_loop_turn()


def taken(box: Mailbox, priority: int = -1) -> list[str]:
    names = []
    while (got := box.try_take(priority)) is not None:
        names.append(got.what)
    return names


def batch(box: Mailbox) -> list[str]:
    names = []
    while (got := box.try_take_from_batch()) is not None:
        names.append(got.what)
    return names


# ----------------------------------------------------------------------------- what sets each apart


def two_urgent(box: Mailbox) -> list[str]:
    put(box, "a", urgent=True)
    put(box, "b", urgent=True)
    return taken(box)


def urgent_from_afar_while_a_batch_runs(box: Mailbox) -> list[str]:
    put(box, "a")
    box.create_batch()
    put(box, "b")
    put_from_afar(box, "u")
    return batch(box)


def urgent_behind_one_that_a_take_did_not_see(box: Mailbox) -> list[str]:
    put(box, "x", 1, urgent=True)
    assert box.try_take(2) is None
    put(box, "a", 2, urgent=True)
    put(box, "b", 2, urgent=True)
    return taken(box, 2)


def two_urgent_while_a_take_waits(box: Mailbox) -> list[str]:
    def both() -> None:
        put(box, "a", urgent=True)
        put(box, "b", urgent=True)

    box._loop.call_soon(both)
    return [box.take().what, box.take().what]


def normal_behind_urgent(box: Mailbox) -> list[str]:
    put(box, "u", urgent=True)
    put(box, "a")
    return batch(box)


def deferrable_at_the_finish(box: Mailbox) -> list[str]:
    put(box, "later", 1, deferrable=True)
    got = box.try_take_ignoring_deferrable(1)
    return [] if got is None else [got.what]


DIFFERENCES: list[tuple[str, Script, list[str], list[str]]] = [
    ("era-1", two_urgent, ["a", "b"], ["b", "a"]),
    ("era-1", urgent_from_afar_while_a_batch_runs, ["u", "a"], ["a"]),
    ("era-2", two_urgent, ["a", "b"], ["b", "a"]),
    ("era-2", urgent_from_afar_while_a_batch_runs, ["u", "a"], ["u", "a", "b"]),
    ("era-3-unpatched", urgent_behind_one_that_a_take_did_not_see, ["a", "b"], ["b", "a"]),
    ("era-3-unpatched", two_urgent_while_a_take_waits, ["a", "b"], ["b", "a"]),
    ("era-3-unpatched", normal_behind_urgent, ["u", "a"], ["u"]),
    ("era-3-unpatched", deferrable_at_the_finish, ["later"], []),
    ("unseen-take-reverses-urgent", urgent_behind_one_that_a_take_did_not_see, ["a", "b"], ["b", "a"]),
    ("parked-take-reverses-urgent", two_urgent_while_a_take_waits, ["a", "b"], ["b", "a"]),
    ("mail-behind-urgent-starves", normal_behind_urgent, ["u", "a"], ["u"]),
    ("finish-skips-deferrable", deferrable_at_the_finish, ["later"], []),
]
CONVICTIONS = tuple(dict.fromkeys(name for name, *_ in DIFFERENCES))
HOLE_SCRIPTS = {
    MailboxDefect.UNSEEN_TAKE_REVERSES_URGENT: urgent_behind_one_that_a_take_did_not_see,
    MailboxDefect.PARKED_TAKE_REVERSES_URGENT: two_urgent_while_a_take_waits,
    MailboxDefect.MAIL_BEHIND_URGENT_STARVES: normal_behind_urgent,
    MailboxDefect.FINISH_SKIPS_DEFERRABLE: deferrable_at_the_finish,
}


def outcome(build: Callable[..., Mailbox], script: Script) -> list[str]:
    with watched_loop() as loop:
        return script(build(loop=loop))


@pytest.mark.parametrize(("name", "script", "ours", "theirs"), DIFFERENCES)
def test_a_variant_differs_from_ours_in_what_its_name_says_m10_m13_m16_m17(
    name: str, script: Script, ours: list[str], theirs: list[str]
) -> None:
    assert outcome(Mailbox, script) == ours
    assert outcome(wrong_part(name), script) == theirs


@pytest.mark.parametrize("hole", MailboxDefect)
@pytest.mark.parametrize("other", MailboxDefect)
def test_a_variant_with_one_hole_has_no_other(hole: MailboxDefect, other: MailboxDefect) -> None:
    script = HOLE_SCRIPTS[other]

    same = outcome(wrong_part(hole.value), script) == outcome(Mailbox, script)

    assert same == (hole is not other)


# ---------------------------------------------------------------------------- what all have in common


CALLS = st.lists(
    st.tuples(
        st.sampled_from(["put", "urgent", "batch", "take", "pop", "drain", "quiesce"]),
        st.integers(0, 2),
        st.booleans(),
    ),
    max_size=30,
)


@pytest.mark.parametrize("name", CONVICTIONS)
@quickly
@given(calls=CALLS)
def test_every_variant_gives_each_mail_once_and_normal_mail_in_order_m5_m7(
    name: str, calls: list[tuple[str, int, bool]]
) -> None:
    with watched_loop() as loop:
        box = wrong_part(name)(loop=loop)
        accepted: list[str] = []
        left: list[str] = []
        for number, (call, priority, deferrable) in enumerate(calls):
            if call in {"put", "urgent"} and box.state.value == "open":
                what = f"{call}{number:02}"
                put(box, what, priority, urgent=call == "urgent", deferrable=deferrable)
                accepted.append(what)
            else:
                left += answer(box, call, priority)
            assert len(box) == len(accepted) - len(left)
            assert box.has_mail() == bool(len(box))
        left += [got.what for got in box.close()]

    assert sorted(left) == sorted(accepted)


def answer(box: Mailbox, call: str, priority: int) -> list[str]:
    """The mails that left by a call that puts none."""
    match call:
        case "batch":
            box.create_batch()
        case "quiesce":
            box.quiesce()
        case "drain":
            return [got.what for got in box.drain()]
        case "pop" | "take":
            got = box.try_take_from_batch() if call == "pop" else box.try_take(priority)
            assert got is None or call == "pop" or (got.priority >= priority and not got.deferrable)
            return [] if got is None else [got.what]
        case _:
            pass
    return []


@pytest.mark.parametrize("name", CONVICTIONS)
def test_the_mailbox_loop_runs_on_every_variant_m30_m31_m33(name: str) -> None:
    ran: list[str] = []
    with watched_loop() as loop:
        box = wrong_part(name)(loop=loop)
        executor, mailbox_processor = MailboxExecutor(box, 0), MailboxProcessor(box)

        def default_action() -> None:
            ran.append("default")
            if ran.count("default") == 2:
                mailbox_processor.all_actions_completed()
                return
            suspension = mailbox_processor.suspend_default_action()

            def reply() -> None:
                loop.call_soon(suspension.resume)

            loop.call_soon(executor.execute, reply, "reply")

        executor.execute(lambda: ran.append("a"), "a")
        executor.execute(lambda: ran.append("b"), "b")
        mailbox_processor.run_mailbox_loop(default_action)

        assert len(box.close()) == 0
    assert ran == ["a", "b", "default", "default"]
    assert mailbox_processor.mails_run == 2 + 1 + 1 + 1  # a and b, the reply, its resumption, the end


# ------------------------------------------------------------ the classic structure, with no hole in it


def whole(*, loop: asyncio.AbstractEventLoop) -> Mailbox:
    return MailboxOfEra3(loop=loop, holes=frozenset())


@quickly
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["put", "urgent", "afar", "batch", "take", "finish"]), st.integers(0, 2)),
        max_size=30,
    )
)
def test_without_a_hole_the_third_era_gives_takes_the_same_mail_as_ours_m16(
    steps: list[tuple[str, int]],
) -> None:
    with watched_loop() as loop:
        boxes = (Mailbox(loop=loop), whole(loop=loop))
        for number, (step, priority) in enumerate(steps):
            ours, theirs = (step_of(box, step, priority, str(number)) for box in boxes)
            assert ours == theirs
        assert taken(boxes[0]) == taken(boxes[1])


@quickly
@given(st.lists(st.sampled_from(["put", "urgent", "afar", "turn"]), max_size=30))
def test_without_a_hole_the_third_era_gives_whole_batches_as_ours_m11_m13(steps: list[str]) -> None:
    with watched_loop() as loop:
        boxes = (Mailbox(loop=loop), whole(loop=loop))
        for number, step in enumerate(steps):
            ours, theirs = (step_of(box, step, 0, str(number)) for box in boxes)
            assert ours == theirs


def step_of(box: Mailbox, step: str, priority: int, what: str) -> list[str]:
    match step:
        case "put" | "urgent":
            put(box, what, priority, urgent=step == "urgent", deferrable=priority == 1)
        case "afar":
            box._add(Mail(lambda: None, priority, what), urgent=True, foreign=True)
        case "batch":
            box.create_batch()
        case "turn":
            box.create_batch()
            return batch(box)
        case "take" | "finish":
            got = box.try_take(priority) if step == "take" else box.try_take_ignoring_deferrable(priority)
            return [] if got is None else [got.what]
        case _:
            raise AssertionError(step)
    return []
