"""The proxy's log comes back from a run's lines as it was."""

from __future__ import annotations

import pytest

from harness.faults.real.evidence import ProxyEvidence, evidence_of


@pytest.mark.parametrize(
    "event",
    [
        ProxyEvidence(t_us=5, did="cut"),
        ProxyEvidence(
            t_us=5,
            did="delayed",
            toxic="slow.downstream",
            connection=3,
            stream="downstream",
            bytes=80,
            ms=100,
        ),
        ProxyEvidence(
            t_us=5, did="dropped", packets=1, command="commit", more={"statement": "COMMIT", "offset": 4}
        ),
    ],
    ids=lambda event: event.did,
)
def test_a_event_is_read_back_as_it_was_written(event: ProxyEvidence) -> None:
    assert evidence_of(event.line()) == event


def test_the_proxys_own_number_is_no_part_of_a_event() -> None:
    assert evidence_of({"n": 7, "t": 5, "did": "cut", "chunks": 2}) == ProxyEvidence(
        t_us=5, did="cut", more={"chunks": 2}
    )
