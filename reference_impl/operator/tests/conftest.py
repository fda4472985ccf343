"""The kinds of loop that the operator runs on: a claim about it holds in real and in virtual time."""

from __future__ import annotations

from functools import partial

import pytest

from reference_impl.tests.rig import OpenRig, open_rig


@pytest.fixture(params=[pytest.param("real", marks=pytest.mark.sweep), "virtual"])
def rigs(request: pytest.FixtureRequest) -> OpenRig:
    """Opens rigs on this kind of loop."""
    return partial(open_rig, virtual=request.param == "virtual")
