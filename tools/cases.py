"""`@each`: one test for many small cases, where pytest's parametrization would make a test of each.

A test costs milliseconds before its first line (collected in each worker, sent, reported), which is more than most
histories, scripts and conversations take. Invariant: every case runs, and each that fails is named in the failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import signature
from typing import Any

import pytest

Test = Callable[..., None]


def each(names: str | tuple[str, ...], cases: Iterable[Any], *, ids: Any = None) -> Callable[[Test], Test]:
    """Run the test for each of `cases`, whose arguments are those of `pytest.mark.parametrize`.

    `tmp_path` and `monkeypatch` are a case's own; every other fixture is shared by the cases.
    """
    named = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
    table = [(_name(ids, number, case), _values(case, named)) for number, case in enumerate(cases)]
    assert table, f"no case for {named}"

    def decorate(test: Test) -> Test:
        @wraps(test)
        def run_all(*itself: Any, **fixtures: Any) -> None:
            failures = []
            for number, (name, values) in enumerate(table):
                try:
                    _run(test, itself, {**fixtures, **dict(zip(named, values, strict=True))}, number)
                except (Exception, pytest.fail.Exception) as failure:  # noqa: BLE001  every case is tried
                    failure.add_note(f"in case {number}: {name}")
                    failures.append(failure)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(table)} cases", failures)

        own = signature(test)
        left = [one for name, one in own.parameters.items() if name not in named]
        run_all.__signature__ = own.replace(parameters=left)  # type: ignore[attr-defined]  # what pytest reads
        return run_all

    return decorate


def in_sweep_after(count: int, cases: Iterable[Any]) -> list[Any]:
    """Cases for `pytest.mark.parametrize`: the first `count` run in tier quick, the others in tier sweep."""
    sweep = pytest.mark.sweep
    shared = [*cases]
    for number, case in enumerate(shared[count:], start=count):
        values = case.values if hasattr(case, "marks") else case if isinstance(case, tuple) else (case,)
        shared[number] = pytest.param(*values, marks=sweep, id=getattr(case, "id", None))
    return shared


def _values(case: Any, named: list[str]) -> tuple[Any, ...]:
    if hasattr(case, "marks"):  # `pytest.param`
        assert not case.marks, "a case has no marks of its own"
        return tuple(case.values)
    return (case,) if len(named) == 1 else tuple(case)


def _name(ids: Any, number: int, case: Any) -> str:
    if ids is None:
        return str(getattr(case, "id", None) or repr(case)[:400])
    return str(ids(case) if callable(ids) else [*ids][number])


def _run(test: Test, itself: tuple[Any, ...], arguments: dict[str, Any], number: int) -> None:
    if "tmp_path" in arguments:
        arguments["tmp_path"] /= f"case{number}"
        arguments["tmp_path"].mkdir(exist_ok=True)
    if "monkeypatch" not in arguments:
        return test(*itself, **arguments)
    with arguments["monkeypatch"].context() as arguments["monkeypatch"]:
        return test(*itself, **arguments)
