"""Refusals: a fault that a level or a world cannot do never runs, and whoever asked learns what can."""

from __future__ import annotations

import pytest

from harness.engine.level import refuse_at_level, refuse_in_world
from harness.faults.tests.fake_site import scenario
from harness.system.errors import UsageError

LOST = {"id": "lost", "do": "lost_commit", "link": "sink", "when": {"at": "1s"}}
ZOMBIE = {"id": "undead", "do": "zombie", "subtask": 0, "when": {"at": "1s"}, "for": "1s"}


def test_a_fault_that_needs_what_the_world_lacks_is_refused_with_the_words_of_what_has_it() -> None:
    lacks = {"packets": "a proxy that understands MySQL packets: run with --proxy own"}

    with pytest.raises(UsageError) as refused:
        refuse_in_world(scenario(LOST), lacks)

    assert "`lost_commit` (fault lost) needs a proxy that understands MySQL packets" in str(refused.value)
    assert "--proxy own" in str(refused.value)


def test_a_world_that_lacks_what_nobody_needs_is_good_enough() -> None:
    refuse_in_world(scenario(LOST), {"small-disk": "a small disk"})


def test_a_fault_of_another_level_is_refused_with_the_level_that_has_it() -> None:
    with pytest.raises(
        UsageError, match=r"`zombie` \(fault undead\) cannot be done at level spark"
    ) as refused:
        refuse_at_level(scenario(ZOMBIE, levels=["live"]), "spark")

    assert "--level sim or live" in refused.value.fix


def test_a_level_that_can_do_all_is_not_refused() -> None:
    refuse_at_level(scenario(LOST), "live")
