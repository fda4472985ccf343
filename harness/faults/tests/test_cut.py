"""`cut` and `reset_now` on a link that has no connection for the moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.faults.cut import ResetNow
from harness.faults.tests.fake_site import Proxy, site

FAULT: dict[str, Any] = {"id": "ended", "do": "reset_now", "link": "lookups", "when": {"at": "0ms"}}


class EmptyAtFirst(Proxy):
    """A proxy whose link has a connection only at the third look."""

    def cut(self, link: str, how: str) -> Sequence[int]:
        super().cut(link, how)
        return [7] if len(self.log) >= 3 else []


def test_a_link_without_connections_is_looked_at_again_until_it_has_some() -> None:
    proxy = EmptyAtFirst([], failing=0, keeps_log=True)
    found: list[Any] = []

    with ResetNow.model_validate(FAULT).inject(site(proxy, note_fact=lambda **facts: found.append(facts))):
        pass

    assert found == [{"connections": [7]}]


def test_a_proxy_that_knows_no_connections_ends_them_once() -> None:
    proxy = EmptyAtFirst([], failing=0, keeps_log=False)

    with ResetNow.model_validate(FAULT).inject(site(proxy)):
        pass

    assert proxy.log == ["cut lookups rst"]
