"""Finds `not-its-row`: a function that returns the rows of its key for most keys, and something else for a few.

Its evidence is what the calm twin returned, so no fault and no other call explains it. Invariant: a function of which
fewer than nine in ten answers are rows is not accused: it may compute its results.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import permutations
from typing import Any, Final

from harness.history.values import brief, identity
from harness.scenario.outcome import Pitfall
from harness.scenario.workloads.shape import Key, key_of

Row = Mapping[str, Any]
Answers = Sequence[tuple[Any, Sequence[Any]]]
"""Pairs of a key, as JSON, and the results for it."""

_OF_TEN: Final = 9
"""How many in ten answers must be rows of their key."""
_ALIKE_MIN: Final = 10
"""So many equal answers for keys with different rows are no coincidence."""
_OF_CUSTOMER: Final = ("name", "city", "tier")
"""The columns of table `customer` that a lookup asks for."""
_NAMED_MAX: Final = 5
"""How many keys the sentence names; the evidence has up to `_TOLD_MAX`."""
_TOLD_MAX: Final = 100
_MATCHED_MAX: Final = 5
"""Up to so many results are compared with the rows in every order; more only in the rows' own."""
_ADVICE: Final = (
    "Look at these keys alone; if the answers are meant, state them with `expected(record, rows)`."
)


def find_not_its_row(
    answers: Answers, *, rows: Mapping[Key, Sequence[Row]], whole: Iterable[Row] | None = None
) -> tuple[Pitfall, ...]:
    """The pitfall, if the answers show it.

    `rows`: the rows of each key of the answers that has some; `whole`: those of the whole table `customer`,
    read more than once; None: the tables are the user's own.
    """
    alike = _all_alike(answers, rows, columns=None if whole is None else _OF_CUSTOMER)
    if alike is not None:
        return (alike,)
    wrong = [(key, results) for key, results in answers if not are_rows(results, rows.get(key_of(key), ()))]
    if not wrong or len(answers) - len(wrong) < len(answers) * _OF_TEN / 10:
        return ()
    told = [
        f"for key {brief(key)} {_what(results, rows.get(key_of(key), ()), whole)}"
        for key, results in wrong[:_TOLD_MAX]
    ]
    more = f", and {len(wrong) - _NAMED_MAX} more" if len(wrong) > _NAMED_MAX else ""
    says = (
        f"Without any fault, alone and one at a time, the function returns the rows of the key for "
        f"{len(answers) - len(wrong)} of {len(answers)} keys; but {'; '.join(told[:_NAMED_MAX])}{more}."
    )
    evidence = {"answers": len(answers), "not_their_rows": len(wrong), "keys": told}
    return (Pitfall(name="not-its-row", says=says, advice=_ADVICE, evidence=evidence),)


def _all_alike(
    answers: Answers, rows: Mapping[Key, Sequence[Row]], *, columns: Collection[str] | None
) -> Pitfall | None:
    """The pitfall of a function that gives the same for every key, whatever the rows.

    `columns`: those in which the rows must differ; None: in any that does not repeat the key.
    """
    same = {identity(list(results)) for _, results in answers}
    different = {_besides_key(key_of(key), rows.get(key_of(key), ()), columns) for key, _ in answers}
    if len(answers) < _ALIKE_MIN or len(same) > 1 or len(different) < _ALIKE_MIN:
        return None
    what = brief(list(answers[0][1])) if answers[0][1] else "nothing"
    says = (
        f"Without any fault the function returns {what} for each of {len(answers)} keys, whose rows differ."
    )
    evidence = {"answers": len(answers), "not_their_rows": len(answers)}
    return Pitfall(name="not-its-row", says=says, advice=_ADVICE, evidence=evidence)


def _besides_key(key: object, rows: Sequence[Row], columns: Collection[str] | None) -> str:
    """What the rows hold besides their key, to be compared; a driver's values need not be JSON."""
    parts = key if isinstance(key, tuple) else (key,)
    return repr(
        [
            [
                value
                for name, value in row.items()
                if (value not in parts if columns is None else name in columns)
            ]
            for row in rows
        ]
    )


def are_rows(results: Sequence[object], rows: Sequence[Row]) -> bool:
    """Whether each result is one of the rows, and each row one result, in any order."""
    if len(results) != len(rows):
        return False
    orders = permutations(rows) if len(rows) <= _MATCHED_MAX else iter([tuple(rows)])
    return any(all(map(_is_row, results, order)) for order in orders)


def _is_row(result: object, row: Row) -> bool:
    """Whether `value` is of this row: a dict with columns of it, a list of its values, or one of its values."""
    match result:
        case dict():
            columns = result.keys() & row.keys()
            return bool(columns) and all(_equal(result[name], row[name]) for name in columns)
        case list():
            return bool(result) and all(_is_value(value, row) for value in result)
        case _:
            return _is_value(result, row)


def _is_value(value: object, row: Row) -> bool:
    return any(_equal(value, held) for held in row.values())


def _equal(one: object, other: object) -> bool:
    return type(one) is type(other) and bool(one == other)


def _what(results: Sequence[object], rows: Sequence[Row], whole: Iterable[Row] | None) -> str:
    """What is wrong with an answer, as the end of a sentence."""
    if not results:
        return f"it returns nothing, though the key has {_counted(len(rows), 'row')}"
    strange = [result for result in results if not any(_is_row(result, row) for row in rows)]
    if not strange:
        return f"it returns {_counted(len(results), 'result')} for {_counted(len(rows), 'row')}"
    if whole is None:
        return f"it returns {brief(strange[0])}, which is no row of the key"
    other = next((row for row in whole if _is_row(strange[0], row)), None)
    if other is not None:
        key = other["k"] if other["part"] is None else [other["k"], other["part"]]
        return f"it returns the row of key {brief(key)}"
    return f"it returns {brief(strange[0])}, which is no row of the table"


def _counted(count: int, what: str) -> str:
    numbers = {0: "no", 1: "one", 2: "two", 3: "three"}
    return f"{numbers.get(count, str(count))} {what}{'' if count == 1 else 's'}"
