"""Claims about the mailbox under any order of calls, against a model too simple to be wrong: M1-M16, M38."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.errors import MailboxClosed, WrongState
from reference_impl.mailbox.mailbox import Deliverable, Mail, Mailbox, MailboxState
from reference_impl.mailbox.processor import MailboxProcessor
from reference_impl.tests.rig import quickly, watched_loop


class Letter(msgspec.Struct):
    """A mail as the model has it."""

    what: str
    priority: int
    urgent: bool
    deferrable: bool
    in_batch: bool = False


class NaiveMailbox:
    """One list in order of arrival; all else is searched for, every time anew."""

    def __init__(self) -> None:
        self.letters: list[Letter] = []
        self.state = MailboxState.OPEN

    def put(self, letter: Letter) -> bool:
        if self.state is MailboxState.OPEN:
            self.letters.append(letter)
        return self.state is MailboxState.OPEN

    def in_order(self) -> list[Letter]:
        """Urgent ones first, each kind in order of arrival (M16)."""
        return sorted(self.letters, key=lambda letter: not letter.urgent)

    def take(self, priority: int, *, ignoring: bool = False) -> list[str]:
        """M7, M8."""
        all_kinds = ignoring or priority == -1
        seen = [
            letter
            for letter in self.in_order()
            if letter.priority >= priority and (all_kinds or not letter.deferrable)
        ]
        return self.leave(seen[:1])

    def create_batch(self) -> bool:
        """M11."""
        if not any(letter.in_batch for letter in self.letters) or any(
            letter.urgent for letter in self.letters
        ):
            for letter in self.letters:
                letter.in_batch = not letter.urgent
        return any(letter.urgent or letter.in_batch for letter in self.letters)

    def pop(self) -> list[str]:
        """M10."""
        if any(letter.urgent for letter in self.letters) and not any(x.in_batch for x in self.letters):
            self.create_batch()
        return self.leave([letter for letter in self.in_order() if letter.urgent or letter.in_batch][:1])

    def end(self, state: MailboxState) -> None:
        """M1."""
        if self.state is MailboxState.OPEN or state is MailboxState.CLOSED:
            self.state = state

    def leave(self, letters: list[Letter]) -> list[str]:
        """They are gone."""
        self.letters = [letter for letter in self.letters if letter not in letters]
        return [letter.what for letter in letters]


@dataclass(frozen=True, kw_only=True)
class Step:
    """A call, and what it would be given."""

    call: str
    priority: int
    deferrable: bool


STEPS = st.lists(
    st.builds(
        Step,
        call=st.sampled_from(
            ["put", "put", "put urgent", "batch", "pop", "pop", "take", "take ignoring", "take all", "drain"]
        ),
        priority=st.integers(0, 3),
        deferrable=st.booleans(),
    ),
    max_size=40,
)
ENDS = st.sampled_from(["quiesce", "close", "none"])


def names(mail: Deliverable | None) -> list[str]:
    return [] if mail is None else [mail.what]


def of_mailbox(box: Mailbox, step: Step, what: str) -> Any:
    """What the real one answers."""
    try:
        match step.call:
            case "put" | "put urgent":
                mail = Mail(lambda: None, step.priority, what, step.deferrable)
                box.put(mail, urgent=step.call == "put urgent")
                return True
            case "batch":
                return box.create_batch()
            case "pop":
                return names(box.try_take_from_batch())
            case "take ignoring":
                return names(box.try_take_ignoring_deferrable(step.priority))
            case "drain":
                return [mail.what for mail in box.drain()]
            case _:
                return names(box.try_take(-1 if step.call == "take all" else step.priority))
    except MailboxClosed:
        return False


def of_model(model: NaiveMailbox, step: Step, what: str) -> Any:
    """What it should answer."""
    if model.state is MailboxState.CLOSED and step.call not in {"batch", "drain"}:
        return False
    match step.call:
        case "put" | "put urgent":
            urgent = step.call == "put urgent"
            return model.put(Letter(what, step.priority, urgent, step.deferrable))
        case "batch":
            return model.create_batch()
        case "pop":
            return model.pop()
        case "drain":
            return model.leave(model.in_order())
        case _:
            priority = -1 if step.call == "take all" else step.priority
            return model.take(priority, ignoring=step.call == "take ignoring")


def end_both(box: Mailbox, model: NaiveMailbox, end: str) -> None:
    """M1, M5."""
    if end == "quiesce":
        box.quiesce()
        model.end(MailboxState.QUIESCED)
    else:
        left = [mail.what for mail in box.close()]
        model.end(MailboxState.CLOSED)
        assert left == model.leave(model.in_order())


@quickly
@given(before=STEPS, after=STEPS, end=ENDS)
def test_any_order_of_calls_gives_what_the_model_gives_m1_m16(
    before: list[Step], after: list[Step], end: str
) -> None:
    with watched_loop() as loop:
        box, model = Mailbox(loop=loop), NaiveMailbox()
        for number, step in enumerate([*before, *after]):
            if number == len(before) and end != "none":
                end_both(box, model, end)

            answer = of_mailbox(box, step, str(number))

            assert answer == of_model(model, step, str(number)), step
            assert (len(box), box.state) == (len(model.letters), model.state)
            assert box.has_mail() == bool(model.letters)


def test_an_urgent_mail_that_a_take_gets_was_no_part_of_the_batch_m10_m16() -> None:
    with watched_loop() as loop:
        box = Mailbox(loop=loop)
        box.put(Mail(lambda: None, 0, "a"))
        box.create_batch()
        box.put(Mail(lambda: None, 0, "u"), urgent=True)

        assert names(box.try_take()) == ["u"]
        assert names(box.try_take_from_batch()) == ["a"]


@quickly
@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=8), st.integers(-1, 3), st.integers(0, 8)
)
def test_batches_are_invisible_to_takes_m12(mails: list[tuple[int, bool]], priority: int, cut: int) -> None:
    with watched_loop() as loop:
        plain, batched = Mailbox(loop=loop), Mailbox(loop=loop)
        for number, (own, deferrable) in enumerate(mails):
            if number == cut:
                batched.create_batch()
            for box in (plain, batched):
                box.put(Mail(lambda: None, own, str(number), deferrable))

        for asked in (priority, -1):
            while got := names(plain.try_take(asked)):
                assert names(batched.try_take(asked)) == got
            assert batched.try_take(asked) is None


@quickly
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=12))
def test_a_turn_runs_no_more_than_its_batch_and_urgent_mail_m13(puts: list[tuple[bool, int]]) -> None:
    """Each mail puts as many normal ones as it is told; none of those runs in the same turn."""
    ran: list[str] = []
    with watched_loop() as loop:
        box = Mailbox(loop=loop)
        mailbox_processor = MailboxProcessor(box)

        def put(what: str, *, urgent: bool, more: int) -> None:
            def action() -> None:
                ran.append(what)
                for number in range(more):
                    put(f"{what}.{number}", urgent=False, more=0)

            box.put(Mail(action, 0, what), urgent=urgent)

        for number, (urgent, more) in enumerate(puts):
            put(str(number), urgent=urgent, more=more)

        box.create_batch()
        box.run_batch(mailbox_processor)

    assert sorted(ran) == sorted(str(number) for number in range(len(puts)))


def test_a_foreign_thread_is_named_before_the_state_m3() -> None:
    """See `test_mailbox.py` for each call; here: the error says whose fault it was."""
    with watched_loop() as loop:
        box = Mailbox(loop=loop)
        box._thread += 1

        for call in (box.drain, box.has_mail, lambda: box.try_take_ignoring_deferrable(0)):
            with pytest.raises(WrongState, match="thread"):
                call()
