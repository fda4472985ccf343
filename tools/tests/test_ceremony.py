"""What counts as ceremony: a helper that is named once, a parameter that is only handed on."""

from __future__ import annotations

from tools.ceremony import measure

MODULE = '''
def public(given: Any, used: int) -> int:
    """One line of body."""
    return _once(given) + used


def _once(given):
    note = "~due"
    return _twice(given)


def _twice(number):
    return number + _twice(number - 1)
'''


def test_a_private_function_that_is_named_once_and_a_parameter_that_is_only_handed_on_are_counted() -> None:
    counted = measure([MODULE])

    assert (counted.functions, counted.once) == (3, 1)
    assert (counted.parameters, counted.handed_on) == (4, 2)
    assert (counted.any_signatures, counted.notes) == (1, 1)
    assert counted.body_median == 1
