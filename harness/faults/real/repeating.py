"""Acts that come again and again while a fault is on: in a thread of their own, which ends with the block.

Answers to Jepsen's `stagger` over a nemesis. Invariant: when the block is over no act is under way and none comes
any more; an act that failed is raised by the block, not swallowed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from harness.errors import WorldError

__all__ = ["repeating", "taking_turns"]

_END_LIMIT_S = 30.0
"""The longest that an act may go on after the block: every act has limits of its own, of a few seconds."""

Turn = tuple[Callable[[], object], float]
"""An act, and the seconds to wait after it."""


@contextmanager
def repeating(act: Callable[[], object], every_s: float) -> Iterator[None]:
    """Do `act` at once, then again `every_s` after each, while the block lasts."""
    with taking_turns((act, every_s)):
        yield


@contextmanager
def taking_turns(*turns: Turn) -> Iterator[None]:
    """Do the acts one after the other, each followed by its wait, round and round while the block lasts."""
    ended, failures = threading.Event(), list[Exception]()

    def go_round() -> None:
        try:
            while True:
                for act, wait_s in turns:
                    act()
                    if ended.wait(wait_s):
                        return
        except Exception as error:  # noqa: BLE001 - raised again by the block, in the thread that waits for it
            failures.append(error)

    thread = threading.Thread(target=go_round, name="repeated act of a fault", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_END_LIMIT_S)
    if thread.is_alive():
        raise WorldError(f"an act of a fault is still under way {_END_LIMIT_S:g} s after its end")
    if failures:
        raise failures[0]
