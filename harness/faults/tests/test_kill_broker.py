"""`kill_broker`: a broker that is dead meanwhile and serves later is evidence; a source without one is an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from harness.faults.kill_broker import KillBroker
from harness.faults.real.evidence import Seen
from harness.faults.real.sites import JobProcesses
from harness.faults.tests.fake_site import Proxy, site
from harness.system.errors import WorldError


class Broker:
    """A broker whose processes are numbered."""

    def __init__(self, *, dies: bool = True) -> None:
        self.pid = 1
        self.alive = True
        self._dies = dies

    def kill(self) -> None:
        self.alive = not self._dies

    def start(self) -> None:
        self.alive = True
        self.pid += 1


class Processes:
    """The processes of a job that has this broker, or none."""

    def __init__(self, broker: Broker | None) -> None:
        self._broker = broker

    def broker(self) -> Broker | None:
        return self._broker


def shown(broker: Broker | None) -> Mapping[str, Any]:
    """The evidence of one activation."""
    facts: list[Mapping[str, Any]] = []
    fault = KillBroker.model_validate({"do": "kill_broker", "id": "gone", "when": {"at": "1s"}, "for": "1ms"})
    place = replace(
        site(Proxy(), note_fact=lambda **told: facts.append(told)),
        job=cast("JobProcesses", Processes(broker)),
    )

    with fault.inject(place):
        assert broker is None or broker.alive
    return fault.evidence(Seen(armed_us=0, healed_us=1, facts=facts))


def test_a_broker_that_died_and_serves_again_is_evidence() -> None:
    evidence = shown(Broker())

    assert (evidence["pid"], evidence["next_pid"]) == (1, 2)


def test_a_broker_that_survived_its_signal_is_none() -> None:
    assert not shown(Broker(dies=False))


def test_a_source_without_a_broker_is_an_error_that_says_what_to_write() -> None:
    with pytest.raises(WorldError, match="has no broker") as lacking:
        shown(None)

    assert 'source.kind = "kafka"' in str(lacking.value)
