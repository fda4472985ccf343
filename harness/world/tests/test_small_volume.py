"""The small disk of a server in a container, on a stand-in for the container that keeps it."""

from __future__ import annotations

import pytest

from harness.system.errors import WorldError
from harness.world.containers.container_server import ASKED_MAX, SmallVolume


class Holder:
    """Answers a program with the next of `outputs`."""

    def __init__(self, *outputs: bytes) -> None:
        self.outputs = list(outputs)

    def exec_run(self, words: list[str]) -> tuple[int, bytes]:
        """As docker's containers do."""
        return 0, self.outputs.pop(0) if "df " in words[-1] else b""


def volume(*outputs: bytes) -> SmallVolume:
    return SmallVolume(holder=Holder(*outputs), mount={})


def test_output_that_the_engine_lost_is_asked_for_again() -> None:
    assert volume(b"", b"Avail\n300\n", b"", b"", b"Avail\n10\n").fill() == 290 * 1024


def test_an_engine_that_loses_all_output_is_an_error_of_the_world() -> None:
    with pytest.raises(WorldError, match="no output of df"):
        volume(*[b""] * ASKED_MAX).fill()
