"""The driver survives every program: each breach is a clear error, and nothing is left running."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from harness.conform.protocol.driver import Command, ProgramDriver
from harness.conform.protocol.events import BreachKind, ErrorAnswer, ProtocolBreach, Stats
from harness.conform.protocol.program import Limits
from harness.conform.protocol.tests.nasty import nasty
from harness.system.clock import Deadline, wait_until
from harness.system.errors import SutError
from harness.system.process_identity import identify
from tools.cases import in_sweep_after

CONFIG = {"mode": "ordered", "capacity": 1, "timeout_ms": 0}
OPEN: Command = {"cmd": "open", "config": CONFIG, "now": 0, "restore": None}
LIMITS = Limits(answer_s=20.0, exit_s=0.15, line_bytes=10_000, answer_bytes=100_000, events=500)
IMPATIENT = replace(LIMITS, answer_s=0.15)
"""For programs that do hang: a limit that a loaded machine could break for a good one is no test."""


def converse(argv: Sequence[str], *, limits: Limits = LIMITS) -> None:
    """Say hello, open, ask for the counters, close; twice."""
    with ProgramDriver(argv, limits=limits) as driver:
        driver.greet()
        for _ in range(2):
            driver.tell(OPEN)
            driver.tell({"cmd": "stats"})
            driver.tell({"cmd": "close"})


# Each entry: the nasty program, the kind of breach, a word of the message.
NASTY: dict[str, tuple[str, BreachKind, str]] = {
    "dies at once": ("sys.exit(3)", BreachKind.DEATH, "status 3"),
    "dies of a signal": ("greet(); os.kill(os.getpid(), 9)", BreachKind.DEATH, "status -9"),
    "dies in the middle of a line": (
        'greet(); next_command(); write(\'{"ev":"cal\'); sys.exit(0)',
        BreachKind.DEATH,
        "in the middle of a line",
    ),
    "says why it dies": (
        "greet(); sys.stderr.write('out of ink'); sys.exit(1)",
        BreachKind.DEATH,
        "out of ink",
    ),
    "hangs": ("greet(); next_command(); sys.stdin.read()", BreachKind.HANG, "no answer in 0.15 s"),
    "answers half": (
        "greet(); next_command(); write('{\"ev\":'); sys.stdin.read()",
        BreachKind.HANG,
        "no answer",
    ),
    "hangs on exit": (
        "greet()\ntry:\n serve()\nexcept SystemExit:\n import threading; threading.Event().wait()",
        BreachKind.HANG,
        "after its input was closed",
    ),
    "talks after the end": (
        "greet()\ntry:\n serve()\nexcept SystemExit:\n quiet(); event(ev='blocked')",
        BreachKind.TURN,
        "quiet",
    ),
    "closes its output": (
        "greet(); os.close(1); sys.stdin.read()",
        BreachKind.DEATH,
        "closed its standard output",
    ),
    "floods with events": (
        "greet(); next_command()\nwhile True: event(ev='blocked')",
        BreachKind.FLOOD,
        "more than 500 events",
    ),
    "floods with long events": (
        "greet(); next_command()\nwhile True: event(ev='emit', value='x' * 5000, ts=1)",
        BreachKind.FLOOD,
        "more than 100000 bytes",
    ),
    "floods without a line feed": (
        "greet(); next_command()\nwhile True: write('x' * 5000)",
        BreachKind.FLOOD,
        "more than 10000 bytes without a line feed",
    ),
    "talks nonsense": ("greet(); next_command(); write('hello?\\n'); quiet()", BreachKind.NONSENSE, "hello?"),
    "writes binary": (
        "greet(); next_command(); write(bytes(range(256)) + b'\\n'); quiet()",
        BreachKind.NONSENSE,
        "",
    ),
    "writes invalid UTF-8": (
        'greet(); next_command(); write(b\'{"ev":"emit","value":"\\xff","ts":1}\\n\'); quiet()',
        BreachKind.NONSENSE,
        "not UTF-8",
    ),
    "nests deeply": (
        "greet(); next_command(); write('{\"ev\":' + '[' * 4000 + '\\n'); quiet()",
        BreachKind.NONSENSE,
        "nested too deep",
    ),
    "writes an empty line": ("greet(); next_command(); write('\\n'); quiet()", BreachKind.NONSENSE, ""),
    "answers before it is asked": (
        "next_command(); write(HELLO + QUIET + QUIET); serve()",
        BreachKind.TURN,
        "quiet",
    ),
    "says quiet twice": ("greet(); next_command(); write(QUIET * 2); serve()", BreachKind.TURN, "quiet"),
    "goes on after quiet": (
        "greet(); next_command(); write(QUIET + BLOCKED); serve()",
        BreachKind.TURN,
        "without a command",
    ),
    "does not greet": ("serve()", BreachKind.STATE, "hello"),
    "refuses to greet": (
        "next_command(); event(ev='error', error='unsupported', message='not today'); quiet(); serve()",
        BreachKind.STATE,
        "not today",
    ),
    "speaks another protocol": (
        "next_command(); event(ev='hello', protocol=2, name='n', version='v', abilities=[]); quiet(); serve()",
        BreachKind.STATE,
        "protocol 2",
    ),
    "claims what nobody knows": (
        "next_command(); event(ev='hello', protocol=1, name='n', version='v', abilities=['magic']); quiet(); serve()",
        BreachKind.NONSENSE,
        "magic",
    ),
    "leaves a child that holds its pipes": (
        "greet()\nif os.fork() == 0:\n os.read(0, 1); import threading; threading.Event().wait()\nos._exit(0)",
        BreachKind.DEATH,
        "status 0",
    ),
}


@pytest.mark.parametrize("name", in_sweep_after(10, NASTY))
def test_a_nasty_program_is_a_clear_error_and_leaves_nothing_behind(name: str) -> None:
    text, kind, word = NASTY[name]
    before = threading.active_count()

    with pytest.raises(ProtocolBreach) as caught:
        converse(nasty(text), limits=IMPATIENT if word.startswith("no answer") else LIMITS)

    assert caught.value.kind is kind
    assert word in str(caught.value)
    assert isinstance(caught.value, SutError)
    assert threading.active_count() == before
    assert_no_children()


def assert_no_children() -> None:
    """A killed grandchild is reaped by init, which takes a moment. Other tests' programs are not ours."""
    assert wait_until(lambda: not _children() - _there_before, deadline=Deadline(60))


def _children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


_there_before: set[psutil.Process] = set()


@pytest.fixture(autouse=True)
def _remember_who_was_there() -> None:
    _there_before.clear()
    _there_before.update(_children())


@pytest.mark.parametrize("argv", [["/no/such/program"], [str(Path(__file__))], [], ["with\0nul"]])
def test_a_program_that_cannot_be_started_is_said_to_be_so(argv: list[str]) -> None:
    with pytest.raises(ProtocolBreach, match="cannot be started") as caught:
        ProgramDriver(argv)

    assert caught.value.kind is BreachKind.START


def test_a_good_program_is_driven_to_its_end() -> None:
    converse(nasty("greet(); serve()"))

    assert_no_children()


def test_a_program_that_never_reads_is_given_up_though_its_pipe_is_full() -> None:
    program = nasty("greet()\nimport threading; threading.Event().wait()")
    huge: Command = {"cmd": "element", "value": "x" * (3 << 20), "ts": 1}

    with ProgramDriver(program, limits=IMPATIENT) as driver:
        driver.greet()
        with pytest.raises(ProtocolBreach, match="no answer") as caught:
            driver.tell(huge)

    assert caught.value.kind is BreachKind.HANG
    assert_no_children()


def test_an_answer_to_a_command_that_was_not_read_is_out_of_turn() -> None:
    program = nasty("greet(); os.read(0, 1); write(QUIET); import threading; threading.Event().wait()")
    huge: Command = {"cmd": "element", "value": "x" * (3 << 20), "ts": 1}

    with ProgramDriver(program, limits=LIMITS) as driver:
        driver.greet()
        with pytest.raises(ProtocolBreach, match="cannot have read") as caught:
            driver.tell(huge)

    assert caught.value.kind is BreachKind.TURN


def test_standard_error_is_drained_whatever_its_size_and_its_tail_is_kept() -> None:
    program = nasty("greet(); next_command(); os.write(2, b'x' * 3_000_000 + b' the tail'); sys.exit(1)")

    with pytest.raises(ProtocolBreach, match="the tail") as caught:
        converse(program, limits=Limits(answer_s=2.0))

    assert len(str(caught.value)) < 10_000


def test_a_child_of_the_program_is_ended_with_it() -> None:
    program = nasty(
        "greet()\nchild = os.fork()\nif child == 0:\n import threading; threading.Event().wait()\n"
        "next_command(); event(ev='error', error='bad-state', message=str(child)); quiet(); serve()"
    )

    with ProgramDriver(program, limits=LIMITS) as driver:
        driver.greet()
        (answer,) = driver.tell(OPEN)
        assert isinstance(answer, ErrorAnswer)
        child = int(answer.message)
        assert identify(child) is not None

    assert wait_until(lambda: identify(child) is None, deadline=Deadline(60))


def test_an_error_names_the_command_and_what_was_said_last() -> None:
    program = nasty("greet(); next_command(); quiet(); next_command(); write('nonsense\\n'); quiet()")

    with pytest.raises(ProtocolBreach) as caught:
        converse(program)

    assert caught.value.command == 3
    assert "nonsense" in str(caught.value)
    assert '"cmd":"stats"' in str(caught.value)


def test_a_batch_larger_than_every_pipe_is_answered_in_order() -> None:
    with ProgramDriver(nasty("greet(); serve()"), limits=Limits(answer_s=10)) as driver:
        driver.greet()
        driver.tell(OPEN)
        padding = "x" * 1_000
        many: list[Command] = [{"cmd": "stats", "padding": padding}] * 4_000
        answers = driver.tell_all(many)

    assert len(answers) == 4_000
    assert all(type(answer[0]) is Stats for answer in answers)


def test_a_program_that_was_ended_cannot_be_told_more() -> None:
    driver = ProgramDriver(nasty("greet(); serve()"), limits=LIMITS)
    driver.greet()
    driver.program.kill()

    with pytest.raises(ProtocolBreach, match="has ended before"):
        driver.tell(OPEN)


def test_a_line_that_is_no_command_may_only_be_refused() -> None:
    refusing = nasty(
        "greet(); sys.stdin.readline(); event(ev='error', error='not-json', message=''); quiet(); serve()"
    )

    with ProgramDriver(refusing, limits=LIMITS) as driver:
        driver.greet()
        (answer,) = driver.tell_raw(b"}{\n")

    assert isinstance(answer, ErrorAnswer)


@pytest.mark.parametrize("broken", [KeyboardInterrupt, ValueError])
def test_an_error_of_ours_ends_the_program_at_once(broken: Callable[[], BaseException]) -> None:
    def interrupted() -> None:
        with ProgramDriver(nasty("greet(); serve()")) as driver:
            driver.greet()
            raise broken()

    with pytest.raises((KeyboardInterrupt, ValueError)):
        interrupted()

    assert_no_children()
