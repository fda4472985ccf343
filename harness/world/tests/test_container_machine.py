"""The process of a database in a container, over an engine that answers as told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("docker")

from docker.errors import APIError  # type: ignore[import-untyped]  # it ships no types

from harness.system.errors import WorldError
from harness.world.containers import container_server
from harness.world.containers.container_server import ContainerMachine


class Container:
    """Refuses the first tries to pause it."""

    def __init__(self, refusals: Iterator[str]) -> None:
        self.status = "running"
        self._refusals = refusals

    def reload(self) -> None:
        """Its status is known."""

    def pause(self) -> None:
        why = next(self._refusals, None)
        if why is not None:
            raise APIError("500 Server Error for http://engine/containers/1/pause", explanation=why)
        self.status = "paused"


def machine(container: Container) -> ContainerMachine:
    def wait(*_: Any) -> None:
        raise AssertionError("nothing is waited for")

    return ContainerMachine(container, volume=None, wait=wait)


def test_a_pause_that_the_freezer_refuses_is_tried_again() -> None:
    container = Container(iter(["unable to freeze", "unable to freeze"]))

    machine(container).pause()

    assert container.status == "paused"


def test_a_pause_that_is_always_refused_is_told_in_the_engines_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_server, "FREEZE_LIMIT_S", 0.05)

    with pytest.raises(WorldError, match="could not pause the server's container: unable to freeze"):
        machine(Container(iter(["unable to freeze"] * 1_000))).pause()
