"""What a two-phase sink keeps in its database: prepared, visible once, or rolled back."""

from __future__ import annotations

import pytest

from harness.choices import Draw
from harness.database.epoch import Visible
from harness.levels.sim.hub import Hub
from harness.sim.database import Fence
from harness.sim.link import Connection, Flight, HubAlarm
from harness.sim.lossy_link import LossyLink
from harness.sim.sinks.ledger import Ledger, NoSuchTransaction, Transaction

FIRST = Transaction(epoch=1, attempt=1)
ROW = Visible(id=7, j=0, value="x")


def _ledger() -> tuple[Ledger, list[Transaction]]:
    shown: list[Transaction] = []
    return Ledger(Fence(), shown=lambda transaction, _rows: shown.append(transaction)), shown


def test_what_is_prepared_is_not_visible() -> None:
    ledger, shown = _ledger()

    ledger.prepare(FIRST, [ROW])

    assert not ledger.is_visible(FIRST)
    assert not shown


def test_what_was_rolled_back_cannot_be_committed() -> None:
    ledger, _ = _ledger()
    ledger.prepare(FIRST, [ROW])
    ledger.forget_but([])

    with pytest.raises(NoSuchTransaction, match="never was, or was rolled back"):
        ledger.show(FIRST)


def test_what_is_visible_stays_so_when_the_rest_is_rolled_back() -> None:
    ledger, shown = _ledger()
    ledger.prepare(FIRST, [ROW])
    ledger.show(FIRST)

    assert ledger.forget_but([]) == 0
    assert ledger.is_visible(FIRST)
    assert shown == [FIRST]


def test_a_lossy_link_never_loses_two_answers_in_a_row() -> None:
    hub = Hub(Draw(1, "test"), limit_ms=10_000, steps_max=10_000)
    link = LossyLink("sink", hub=hub, draw=Draw(1, "link"), loss_share=100)
    lost: list[bool] = []

    def ask() -> None:
        flight = Flight(
            Connection(link, 1),
            alarm=HubAlarm(hub),
            landed=lambda landed: lost.append(landed.code is not None),
        )
        link.send(flight, service_ms=1)

    for instant_ms in range(0, 80, 10):
        hub.at(instant_ms, ask)
    hub.run()

    assert lost == [True, False] * 4
