"""What counts as ceremony: a helper that is named once, a parameter that is only handed on."""

from __future__ import annotations

import pytest

from tools.ceremony import measure, starts_children

MODULE = '''
def public(given: Any, used: int) -> int:
    """One line of body."""
    return _once(given) + used


class Armed(Note, tag="~armed"): ...


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


@pytest.mark.parametrize(
    "text",
    [
        "from subprocess import Popen",
        "from multiprocessing import get_context",
        "from concurrent.futures import ProcessPoolExecutor",
        "process = subprocess.Popen(command)",
        "child = os.fork()",
        "child = await asyncio.create_subprocess_exec(program)",
    ],
)
def test_a_module_that_starts_a_process_by_itself_is_another_way_to_do_so(text: str) -> None:
    assert starts_children(text)


def test_a_module_that_has_a_process_started_is_none() -> None:
    assert not starts_children(
        '"""As `subprocess.Popen`."""\nworker = server.fork(log)\ndone = subprocess.run(command)\n'
    )
