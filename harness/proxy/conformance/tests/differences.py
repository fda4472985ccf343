"""Where our proxy differs from Toxiproxy 2.12 on purpose: what each does, and why ours differs.

Invariant: every difference here is shown by a test on both proxies, and every difference that a test meets is here
(`tests/test_differences.py`); the table in `docs/reference/proxy.md` is generated from this list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference between the two proxies."""

    name: str
    """The name by which its test refers to it."""
    when: str
    toxiproxy: str
    ours: str
    why: str


_DEAD_SERVER = "one bad number must not break every test that shares the proxy"
_NEVER_WAIT = "a control call never waits for data, a sleep or a dial"
_TRUE = "a refused request changes nothing, and the interface shows the real state"

DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        name="slicer-of-nothing",
        when="`slicer` with `average_size` 0 or left out, and data flows",
        toxiproxy="the server dies (stack overflow)",
        ours="400",
        why=_DEAD_SERVER,
    ),
    Difference(
        name="slicer-varies-too-much",
        when="`slicer` with `size_variation` above `average_size`, and data flows",
        toxiproxy="the server dies",
        ours="pieces of at least one byte",
        why=_DEAD_SERVER,
    ),
    Difference(
        name="negative-rate",
        when="`bandwidth` with a negative `rate`, and data flows",
        toxiproxy="the server dies",
        ours="400",
        why=_DEAD_SERVER,
    ),
    Difference(
        name="half-close",
        when="a peer sends FIN and goes on reading",
        toxiproxy="both directions are closed, so the answer is lost",
        ours="the FIN is passed on, the answer arrives",
        why="TCP has half-closed connections, and an extra fault by the proxy would hide others",
    ),
    Difference(
        name="peer-resets",
        when="a peer resets the connection",
        toxiproxy="the other peer gets a FIN",
        ours="the other peer gets an RST",
        why="a crash upstream must look like a crash to the client",
    ),
    Difference(
        name="reset-of-live-connections",
        when="`reset_peer` is added to a live connection",
        toxiproxy="it ends by a FIN: only connections opened later are reset",
        ours="it ends by an RST",
        why="that is what the toxic is for",
    ),
    Difference(
        name="reset-leaves-run_loop_after_close",
        when="a connection that was opened under `reset_peer` ends after its removal",
        toxiproxy="by an RST",
        ours="by a FIN",
        why="a removed toxic has no effect",
    ),
    Difference(
        name="removal-waits-for-a-sleep",
        when="`reset_peer` is removed while its time runs",
        toxiproxy="the call waits until the time is over",
        ours="the call is answered at once, and the connections that it waited for are reset then",
        why=_NEVER_WAIT,
    ),
    Difference(
        name="timeout-of-a-busy-connection",
        when="`timeout` 200 ms, and the connection sends all the time",
        toxiproxy="it is never closed: each chunk restarts the time",
        ours="it is closed after 200 ms",
        why="that is what the toxic is documented to do",
    ),
    Difference(
        name="toxicity-is-drawn-again",
        when="another toxic is added beside one with `toxicity` 0.5",
        toxiproxy="live connections draw again whether the first one acts",
        ours="decided once for each connection",
        why="whether a fault acts on a connection must not change",
    ),
    Difference(
        name="seed",
        when="the same `-seed` (ours: `--seed`) and the same connections, twice",
        toxiproxy="other connections are hit: the seed is not used",
        ours="the same connections are hit",
        why="a failure must be repeatable",
    ),
    Difference(
        name="hangs-for-ever",
        when="a toxic is removed while it holds data for a client that does not read",
        toxiproxy="no answer within its 25 s, then every call that lists toxics hangs",
        ours="answered at once; what it held waits for the client",
        why=_NEVER_WAIT,
    ),
    Difference(
        name="waits-for-a-dial",
        when="an upstream neither accepts nor refuses, and the proxy is disabled",
        toxiproxy="the call waits for the dial, and so do later clients",
        ours="answered at once: each connection dials by itself",
        why=_NEVER_WAIT,
    ),
    Difference(
        name="move-to-a-taken-port",
        when="`PATCH listen` to a taken port",
        toxiproxy="500, and the proxy is down with the new address",
        ours="500, and it goes on where it was",
        why=_TRUE,
    ),
    Difference(
        name="half-applied-attributes",
        when="`PATCH` of a toxic with a good attribute before a bad one",
        toxiproxy="400, and the good one is applied",
        ours="400, and nothing is applied",
        why=_TRUE,
    ),
    Difference(
        name="no-upstream",
        when="`PATCH upstream` to the empty text",
        toxiproxy="200",
        ours="400 `missing required field: upstream`",
        why="a proxy without upstream cannot be created either",
    ),
    Difference(
        name="disabled-at-no-address",
        when="a disabled proxy is created at a malformed address",
        toxiproxy="201; enabling it will fail",
        ours="500 with the same text as when it is enabled",
        why=_TRUE,
    ),
    Difference(
        name="port-taken-while-disabled",
        when="another program listens on the port of a disabled proxy",
        toxiproxy="enabling fails",
        ours="impossible: the port stays bound while it does not listen",
        why="ending a fault must not fail because another program took the port",
    ),
    Difference(
        name="populate-any-port",
        when="the same `populate` with port 0 twice",
        toxiproxy="the proxy is created again: another port, no toxics, connections cut",
        ours="the proxy is untouched",
        why="populate is meant to be repeatable",
    ),
    Difference(
        name="omitted-listen",
        when="`listen` is left out",
        toxiproxy="listens on every address of the machine",
        ours="listens on 127.0.0.1",
        why="nothing listens on the network unless an address asks for it",
    ),
    Difference(
        name="name-with-a-slash",
        when="a proxy or toxic whose name has a `/`",
        toxiproxy="created, then 404 for ever",
        ours="addressed with `%2F`",
        why="everything that can be created can be deleted",
    ),
    Difference(
        name="name-of-dots",
        when="a proxy called `.` or `..`",
        toxiproxy="created, and no request can address it",
        ours="400",
        why="everything that can be created can be deleted",
    ),
    Difference(
        name="path-with-gaps",
        when="a path with `//`, `.` or `..`",
        toxiproxy="301 to the path without",
        ours="404",
        why="no client sends such a path",
    ),
    Difference(
        name="body-in-chunks",
        when="a body with `Transfer-Encoding: chunked`",
        toxiproxy="it is read",
        ours="411",
        why="the known clients send a `Content-Length`",
    ),
    Difference(
        name="metrics",
        when="`GET /metrics`",
        toxiproxy="404 without an option; bytes are counted when a connection ends",
        ours="always; bytes are counted as they pass",
        why="a pool's connections stay open until the test ends",
    ),
    Difference(
        name="own-toxics",
        when="a toxic of type `packet`, `half_open`, `refuse` or `stall`",
        toxiproxy="400 `invalid toxic type`",
        ours="see above",
        why="faults that are impossible with bytes alone",
    ),
    Difference(
        name="own-addresses",
        when="`/floodmark`, `/proxies/{p}/deeds`, `/proxies/{p}/connections`, `/proxies/{p}/cut`",
        toxiproxy="404",
        ours="see above",
        why="evidence of each fault, and a way to cut live connections",
    ),
    Difference(
        name="version",
        when="`GET /version`",
        toxiproxy="`2.12.0`",
        ours="`2.12.0-floodmark.` and our version",
        why="a report must say which proxy it was",
    ),
)
"""In the order of the page's table: crashes, connections, control calls, the interface."""

_Test = TypeVar("_Test", bound=Callable[..., None])


def shows(difference: str) -> Callable[[_Test], _Test]:
    """Decorator: this test shows the named difference on both proxies."""
    assert any(one.name == difference for one in DIFFERENCES)
    return lambda test: test
