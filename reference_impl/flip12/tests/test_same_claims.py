"""The reference's own tests, run on the second system: all that open their rig through the fixture `rigs`.

A test of mode `keyed` is skipped: that design has none. Invariant: a test that is left
out is about something that the first design does otherwise; what it does instead has
its test in `test_first_design`.
"""

from __future__ import annotations

from inspect import isfunction, signature
from types import ModuleType

from reference_impl.operator.tests import (
    test_async_wait,
    test_async_wait_control,
    test_async_wait_life,
    test_races,
    test_result,
    test_timeout,
)

_MODULES = (
    test_async_wait,
    test_async_wait_control,
    test_async_wait_life,
    test_races,
    test_result,
    test_timeout,
)
_LEFT_OUT = {
    "test_a_record_that_waits_for_a_slot_is_in_no_snapshot_a30",
    "test_a_status_keeps_its_place_takes_a_slot_and_is_in_the_snapshot_a55",
}


def _claims(module: ModuleType) -> dict[str, object]:
    return {
        name: test
        for name, test in vars(module).items()
        if name.startswith("test_") and isfunction(test) and "rigs" in signature(test).parameters
    }


_ALL = {name: test for module in _MODULES for name, test in _claims(module).items()}
assert set(_ALL) >= _LEFT_OUT, "a test that is left out is gone, or has another name now"

globals().update({name: test for name, test in _ALL.items() if name not in _LEFT_OUT})
