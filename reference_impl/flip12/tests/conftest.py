"""The second system's rigs: those of the reference's tests, around the operator of the first design."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import pytest

from reference_impl.flip12.wait_operator import build_operator
from reference_impl.operator.build import BuildOperator
from reference_impl.tests.rig import OpenRig, Rig, open_rig


@pytest.fixture(params=[pytest.param("real", marks=pytest.mark.sweep), "virtual"])
def rigs(request: pytest.FixtureRequest) -> OpenRig:
    """Opens rigs on this kind of loop, and closes their operators, for an emitter has a thread."""
    return partial(_open_and_close, virtual=request.param == "virtual")


@contextmanager
def _open_and_close(**settings: Any) -> Iterator[Rig]:
    if settings.get("mode") == "keyed":
        pytest.skip("the first design has no order by key")
    build = cast("BuildOperator", build_operator)  # another class, of the same interface
    with open_rig(build=build, **settings) as rig:
        try:
            yield rig
        finally:
            rig.operator.close()
