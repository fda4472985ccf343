"""One random scenario in virtual time: 50 records, 5 watermarks, 2 checkpoints, a crash, a restore, timeouts.

Answers to Jepsen's generator, checker and nemesis at the smallest scale. A `Trial` is the state of the scenario,
driven by `run_seed` or by Hypothesis (`scenario_machine`); `finish` checks everything that came out. Invariant: no
choice changes the expected output, so one comparison decides: each record once with its own value, each watermark
once, in order (in unordered mode records between two watermarks in any order).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter

from harness.system.choices import Choices
from harness.system.clock import monotonic_us
from reference_impl.elements import OperatorInput, QueueElement, Record, Watermark
from reference_impl.mailbox.loops import VirtualLoop, virtual_loop
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.processor import MailboxProcessor
from reference_impl.mailbox.timers import Timers
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import BuildOperator, Mode, build_operator
from reference_impl.operator.result import ResultHandle
from tools.bench.answer import WrongOutput

RECORDS = 50
CAPACITY = 10
TIMEOUT_MS = 20
_RECORDS_A_WATERMARK = 10
_LATE_MS = 5
"""How long after its timeout a late answer comes, which must be ignored."""
_SUBSTITUTE = 1_000
"""Added to the value of a record that timed out."""
_TOO_LATE = 1_000_000
"""Added to the value of an answer that must be ignored."""
_SLOW_OF_256 = 13
"""5 % of the requests (13 of 256) do not answer before their timeout."""


def _elements() -> Iterator[QueueElement]:
    for number in range(RECORDS):
        yield Record(value=number)
        if (number + 1) % _RECORDS_A_WATERMARK == 0:
            yield Watermark(timestamp=number)


ELEMENTS: Sequence[QueueElement] = tuple(_elements())

Pace = bytes
"""One byte for each record: the latency of its call."""
Tape = bytes
"""One byte for each choice."""


class _Lookup:
    """Completes a record after 1 to 8 ms, or, if it is slow, only after its timeout."""

    def __init__(self, loop: VirtualLoop, pace: Pace) -> None:
        self._loop = loop
        self._pace = pace

    def invoke(self, value: int, handle: ResultHandle) -> None:
        pace = self._pace[value]
        if pace >= _SLOW_OF_256:
            self._loop.call_later((1 + pace % 8) / 1000, handle.complete, [value])

    def timeout(self, value: int, handle: ResultHandle) -> None:
        handle.complete([value + _SUBSTITUTE])
        self._loop.call_later(_LATE_MS / 1000, handle.complete, [value + _TOO_LATE])


class Trial:
    """A job of one operator with a transactional sink. Mutable; each method is one possible step.

    All attempts share the loop, so calls of a crashed attempt still complete, into a closed mailbox.
    """

    def __init__(
        self, *, loop: VirtualLoop, mode: Mode, pace: Pace, build: BuildOperator = build_operator
    ) -> None:
        self._loop = loop
        self._mode: Mode = mode
        self._pace = pace
        self._build = build
        self._saved: tuple[int, tuple[QueueElement, ...]] = (0, ())
        self._committed: list[OperatorInput] = []
        self._begin()

    def _begin(self) -> None:
        """Start an attempt from the last checkpoint, with its own mailbox and timers."""
        self.position, restored = self._saved
        self._uncommitted: list[OperatorInput] = []
        self._mailbox = Mailbox(loop=self._loop)
        self._executor = MailboxExecutor(self._mailbox, 0)
        self._operator: AsyncWaitOperator = self._build(
            mode=self._mode,
            capacity=CAPACITY,
            function=_Lookup(self._loop, self._pace),
            timeout_ms=TIMEOUT_MS,
            executor=self._executor,
            timers=Timers(self._loop, self._executor),
            emit=self._uncommitted.append,
            fail=MailboxProcessor(self._mailbox).report_throwable,
            probe=None,
        )
        self._operator.open(restored)

    def feed(self) -> None:
        """Process the next element; a full queue runs mail and lets time pass until there is room."""
        element = ELEMENTS[self.position]
        self.position += 1
        self._operator.process(element)

    def run_mail(self) -> None:
        """Run one mail, if there is one."""
        self._executor.try_yield()

    def let_time_pass(self) -> None:
        """Advance to the next due timer."""
        due_ms = self._loop.next_due_ms()
        if due_ms is not None:
            self._loop.advance(due_ms)
            self._mailbox.let_loop_turn()

    def checkpoint(self) -> None:
        """Save what is in flight; commit what was emitted."""
        self._saved = (self.position, tuple(self._operator.snapshot()))
        self._committed += self._uncommitted
        self._uncommitted.clear()

    def crash(self) -> None:
        """Lose everything since the last checkpoint and restart from it."""
        self._end()
        self._begin()

    def finish(self) -> None:
        """Process the rest, drain, commit and compare. Raises WrongOutput."""
        while self.position < len(ELEMENTS):
            self.feed()
        self._operator.end_input()
        self.checkpoint()
        self._end()
        came_out = _by_segment(self._committed) if self._mode == "unordered" else self._committed
        expected = [_expected(element, self._pace) for element in ELEMENTS]
        if came_out != expected:
            raise WrongOutput(f"{self._mode}: came out {came_out}, expected {expected}")

    def _end(self) -> None:
        self._operator.close()
        self._mailbox.close()


def run_seeds(count: int) -> float:
    """Seconds for the scenarios of seeds 0 .. count-1."""
    began_us = monotonic_us()
    for seed in range(count):
        run_seed(seed)
    return (monotonic_us() - began_us) / 1e6


def run_seed(seed: int, *, build: BuildOperator = build_operator) -> None:
    """Run the scenario of `seed`; the mode alternates with the seed. Raises WrongOutput."""
    tape = _tape(seed)
    with virtual_loop() as loop:
        mode: Mode = "unordered" if seed % 2 else "ordered"
        trial = Trial(loop=loop, mode=mode, pace=tape[:RECORDS], build=build)
        try:
            _play(trial, tape[RECORDS:])
        except Exception as error:
            error.add_note(f"Seed {seed}: `run_seed({seed})` does it again.")
            raise


def _play(trial: Trial, tape: Tape) -> None:
    """Step as the tape says, with checkpoints and the crash where it says."""
    first, second, crash = _places(tape[:3])
    incidents = [(first, trial.checkpoint), (second, trial.checkpoint), (crash, trial.crash)]
    moves: Sequence[Callable[[], None]] = (trial.feed, trial.run_mail, trial.let_time_pass, trial.feed)
    turns = iter(tape[3:])
    for position, incident in sorted(incidents, key=itemgetter(0)):
        while trial.position < position:
            moves[next(turns) & 3]()
        incident()
    trial.finish()


def _places(draws: Tape) -> tuple[int, int, int]:
    """The positions of the two checkpoints, and of the crash somewhere after the first."""
    first = 5 + draws[0] % 20
    second = first + 1 + draws[1] % (len(ELEMENTS) - first - 1)
    return first, second, first + 1 + draws[2] % (len(ELEMENTS) - first)


def _tape(seed: int) -> Tape:
    """All choices of a scenario in one draw, a byte each; its length bounds the number of steps."""
    return Choices(seed, "random scenario").index(_TAPES).to_bytes(_TAPE_BYTES, "big")


_TAPE_BYTES = 512
_TAPES = 256**_TAPE_BYTES


def _expected(element: QueueElement, pace: Pace) -> QueueElement:
    if isinstance(element, Record) and pace[element.value] < _SLOW_OF_256:
        return Record(value=element.value + _SUBSTITUTE)
    return element


def _by_segment(came_out: Sequence[OperatorInput]) -> list[OperatorInput]:
    """The records between two watermarks in input order; the watermarks keep their places."""
    sorted_: list[OperatorInput] = []
    begin = 0
    for at, element in enumerate(came_out):
        if isinstance(element, Watermark):
            sorted_ += [*sorted(came_out[begin:at], key=_input_of), element]
            begin = at + 1
    return [*sorted_, *sorted(came_out[begin:], key=_input_of)]


def _input_of(element: OperatorInput) -> int:
    assert isinstance(element, Record), "only records stand between two watermarks"
    number: int = element.value % _SUBSTITUTE
    return number
