"""A link of our proxy before a real server, on a loop in a thread of its own, for tests whose clients block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from harness.proxy.link import Cutting, Link
from harness.proxy.mysql.rules import ATTRIBUTES, refuse
from harness.proxy.proxy_parts import ProxyParts
from harness.proxy.toxic_kinds import TOXIC_KINDS
from harness.proxy.toxics.stage import Stream, Toxic
from harness.system.clock import Deadline, wait_until
from harness.world.world import Address
from reference_impl.mailbox.loops import real_loop

T = TypeVar("T")
_LIMIT_S = 60.0


class ThreadedLink:
    """Everything that is asked of the link is done on its loop, one thing after the other."""

    def __init__(self, link: Link, loop: asyncio.AbstractEventLoop) -> None:
        self._link = link
        self._loop = loop
        self.port = int(self.ask(lambda: link.listen).rpartition(":")[2])

    def ask(self, act: Callable[[], T]) -> T:
        """Do something on the loop; answers with what it answers."""
        answer: Future[T] = Future()

        def do() -> None:
            try:
                answer.set_result(act())
            except BaseException as error:  # noqa: BLE001 -- it is raised in the thread that asked
                answer.set_exception(error)

        self._loop.call_soon_threadsafe(do)
        return answer.result(_LIMIT_S)

    def packets(self, name: str = "fault", stream: str = "downstream", **attributes: int | str) -> None:
        """A packet toxic."""
        whole = {**ATTRIBUTES, **attributes}
        assert refuse(whole) == ""
        self._add(name, "packet", stream, whole)

    def toxic(self, kind: str, stream: str = "downstream", **attributes: int | str) -> None:
        """Another toxic, which has its kind's name."""
        self._add(kind, kind, stream, {**TOXIC_KINDS[kind].attributes, **attributes})

    def _add(self, name: str, kind: str, stream: str, attributes: Mapping[str, int | str]) -> None:
        toxic = Toxic(name=name, type=kind, stream=stream, direction=Stream(stream), attributes=attributes)
        self.ask(lambda: self._link.add_toxic(toxic))

    def remove(self, name: str = "fault") -> None:
        """Take a toxic away."""
        self.ask(lambda: self._link.remove_toxic(name))

    def remove_in(self, seconds: float, name: str = "fault") -> None:
        """Take a toxic away later, while a client waits."""
        self.ask(lambda: self._loop.call_later(seconds, self._link.remove_toxic, name))

    def cut(self, how: Cutting) -> list[int]:
        """End the live connections."""
        return self.ask(lambda: self._link.cut(how))

    def connections(self) -> list[Mapping[str, Any]]:
        """Those that live."""
        return self.ask(self._link.connections)

    def log(self, did: str = "") -> list[Mapping[str, Any]]:
        """What was done, or what of it was of this sort."""
        events = self.ask(lambda: [event.as_json() for event in self._link.log_after(0).events])
        return [event for event in events if did in {"", event["did"]}]

    def wait_for_event(self, did: str, count: int = 1) -> list[Mapping[str, Any]]:
        """The log entries of a sort, once there are so many."""
        assert wait_until(lambda: len(self.log(did)) >= count, deadline=Deadline(_LIMIT_S)), self.log()
        return self.log(did)


@contextmanager
def threaded_link(server: Address, *, mysql: bool = True) -> Iterator[ThreadedLink]:
    """A link to `server` while the block lasts."""
    begun: Future[tuple[Link, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    def run() -> None:
        with real_loop() as loop:
            parts = ProxyParts(loop, seed=7)
            link = Link(
                name="db",
                listen="127.0.0.1:0",
                upstream=f"{server.host}:{server.port}",
                parts=parts,
                mysql=mysql,
            )
            over = asyncio.Event()
            loop.call_soon(link.start)
            loop.call_soon(begun.set_result, (link, loop, over))
            loop.run_until_complete(over.wait())
            link.close()
            parts.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    link, loop, over = begun.result(_LIMIT_S)
    try:
        yield ThreadedLink(link, loop)
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(_LIMIT_S)
    assert not thread.is_alive()
