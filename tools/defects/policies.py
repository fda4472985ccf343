"""Defects of what an error or a timeout yields: of dead letters, of substitutes, and of failures of the task.

Answers to a catch-all that answers an error with nothing, to a shared error variable, and to a default value that is
not the configured one. Invariant: the call or its timeout ends as in the reference, and something else becomes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from harness.sut.defects.defect import NEVER, SIM_AND_LIVE, Applies, Defect, both, calls_fail
from harness.sut.function_under_test import (
    DeadLetter,
    DeadLetterFunction,
    Enriched,
    WrappedFunction,
    WrappedHandle,
    is_dead_letter,
)
from harness.sut.variant import HasJournal, Variant
from reference_impl.operator.functions import AsyncFunction
from reference_impl.operator.result import ResultHandle
from tools.defects.where import has_dead_letters, substitutes


class _Changing(WrappedFunction):
    """`function`, which gets the handles that `handle` makes of the operator's."""

    def __init__(self, function: AsyncFunction, handle: Callable[[ResultHandle, Any], ResultHandle]) -> None:
        super().__init__(function)
        self._handle = handle

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        self.function.invoke(value, self._handle(handle, value))

    def timeout(self, value: Any, handle: ResultHandle) -> None:
        self.function.timeout(value, self._handle(handle, value))


class _LettersChanged(WrappedHandle):
    """A handle that passes `change(letter)` on in place of a dead letter; None: no result at all."""

    def __init__(self, handle: ResultHandle, change: Callable[[DeadLetter], object]) -> None:
        super().__init__(handle)
        self._change = change

    def complete(self, results: Sequence[Any]) -> None:
        if is_dead_letter(results):
            changed = self._change(results[0])
            results = [] if changed is None else [changed]
        self.handle.complete(results)


def _changing_letters(change: Callable[[DeadLetter], object]) -> Variant:
    def changed(honest: AsyncFunction, attempt: HasJournal) -> AsyncFunction:
        del attempt
        return _Changing(honest, lambda handle, value: _LettersChanged(handle, change))

    return Variant(function=changed)


def _losing_one_letter(honest: AsyncFunction, attempt: HasJournal) -> AsyncFunction:
    """The second letter of each attempt is lost."""
    del attempt
    letters: list[DeadLetter] = []

    def lose(letter: DeadLetter) -> DeadLetter | None:
        letters.append(letter)
        return None if len(letters) == 2 else letter  # noqa: PLR2004 - as the docstring says

    return _Changing(honest, lambda handle, value: _LettersChanged(handle, lose))


def _with_error_before(honest: AsyncFunction, attempt: HasJournal) -> AsyncFunction:
    """Each letter has the error of the one before it: the error is kept in a variable and read too early."""
    del attempt
    errors = [""]

    def change(letter: DeadLetter) -> DeadLetter:
        errors.append(letter.error)
        return replace(letter, error=errors[-2])

    return _Changing(honest, lambda handle, value: _LettersChanged(handle, change))


class _SubstitutesChanged(WrappedHandle):
    """A handle of a timeout that passes on other values."""

    def complete(self, results: Sequence[Any]) -> None:
        changed = [replace(one, value="?") if type(one) is Enriched else one for one in results]
        self.handle.complete(changed)


class _FirstSubstitute(WrappedHandle):
    """A handle of a timeout that passes on the first value only."""

    def complete(self, results: Sequence[Any]) -> None:
        self.handle.complete(results[:1])


class _OtherSubstitutes(WrappedFunction):
    """`function`, whose timeouts get a handle of class `kind`."""

    def __init__(self, function: AsyncFunction, kind: type[WrappedHandle]) -> None:
        super().__init__(function)
        self._kind = kind

    def timeout(self, value: Any, handle: ResultHandle) -> None:
        self.function.timeout(value, self._kind(handle))


class _ErrorsSwallowed(WrappedHandle):
    """A handle that answers an error with no result."""

    def fail(self, error: BaseException) -> None:
        del error
        self.handle.complete([])


def _swallowing(honest: AsyncFunction, attempt: HasJournal) -> AsyncFunction:
    del attempt
    return _Changing(honest, lambda handle, value: _ErrorsSwallowed(handle))


def _writing_letters(honest: AsyncFunction, attempt: HasJournal) -> AsyncFunction:
    """Dead letters, whatever is declared."""
    del attempt
    return DeadLetterFunction(honest)


def _not(question: Applies) -> Applies:
    return lambda scenario: not question(scenario)


_LETTERS = "there are dead letters; a call ends with an error"

OF_POLICIES = (
    Defect(
        name="letters-vanish",
        about="every dead letter is replaced by an empty result",
        mirrors="a catch-all that answers with nothing",
        convicted_by=("V20",),
        variant=_changing_letters(lambda letter: None),
        where=_LETTERS,
        applies=both(has_dead_letters, calls_fail),
        scenario="letters-of-timeouts",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="one-letter-vanishes",
        about="the second dead letter of each attempt is replaced by an empty result",
        mirrors="a side output that is asked for by name, and once by a wrong one",
        convicted_by=("V20",),
        variant=Variant(function=_losing_one_letter),
        where=_LETTERS,
        applies=both(has_dead_letters, calls_fail),
        scenario="letters-of-timeouts",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="letters-of-no-cause",
        about="every dead letter says that the lookup failed, and not why",
        mirrors="an error that is logged and thrown away",
        convicted_by=("V20",),
        variant=_changing_letters(lambda letter: replace(letter, error="lookup failed")),
        where=_LETTERS,
        applies=both(has_dead_letters, calls_fail),
        scenario="letters-of-timeouts",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="letters-of-error-before",
        about="a dead letter has the error of the record that failed before it",
        mirrors="an error kept in a variable of the operator",
        convicted_by=("V20",),
        variant=Variant(function=_with_error_before),
        where=_LETTERS,
        applies=both(has_dead_letters, calls_fail),
        scenario="letters-of-timeouts",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="value-for-a-letter",
        about="a record that failed leaves with a value, where a dead letter is declared",
        mirrors="a default that was meant for another policy",
        convicted_by=("V20",),
        variant=_changing_letters(lambda letter: Enriched(id=letter.id, j=0, value="no answer")),
        where=_LETTERS,
        applies=both(has_dead_letters, calls_fail),
        scenario="letters-of-timeouts",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="other-substitutes",
        about="a record that timed out leaves with another value than the configured one",
        mirrors="a default value that is written twice",
        convicted_by=("V20",),
        variant=Variant(function=lambda honest, attempt: _OtherSubstitutes(honest, _SubstitutesChanged)),
        where="calls are made once; a timeout is answered",
        applies=substitutes,
        scenario="blackhole-with-default",
    ),
    Defect(
        name="first-substitute-only",
        about="of several values that a timeout yields only the first leaves",
        mirrors="a default that is one value in one place, and a list in another",
        convicted_by=("V20",),
        variant=Variant(function=lambda honest, attempt: _OtherSubstitutes(honest, _FirstSubstitute)),
        where="`two-substitutes`",
        applies=NEVER,
        scenario="two-substitutes",
    ),
    Defect(
        name="failures-answered-with-nothing",
        about="an error of a call becomes an empty result, where it should fail the task",
        mirrors="a bare except",
        convicted_by=("V20",),
        variant=Variant(function=_swallowing),
        where="a call ends with an error, which should fail the task",
        applies=both(calls_fail, _not(has_dead_letters)),
        scenario="failures-restart",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="letters-unasked",
        about="a record that failed goes to the dead letters, where it should fail its task",
        mirrors="an operator that never stops",
        convicted_by=("V20",),
        variant=Variant(function=_writing_letters),
        where="a call ends with an error, which should fail the task",
        applies=both(calls_fail, _not(has_dead_letters)),
        scenario="failures-restart",
        levels=SIM_AND_LIVE,
    ),
)
