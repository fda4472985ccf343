"""A strand: one subtask as the screen follows it, from attempt to attempt over its snaps.

Answers to "Which snap", "Chain" and "Effective output" of `docs/reference/history.md`. Invariant: a life that
starts from a checkpoint starts from exactly what was open at its snap, so that the chain of lives reads like one;
with transactional sinks the commits of the chain come in its order, and nothing that left is passed over. Memory
grows with the snaps that may still be restored.
"""

from __future__ import annotations

from msgspec import UNSET

from harness.checkers.screen.account import US_PER_MS, Account
from harness.checkers.screen.attempt import Life, Saved, SourceMemory
from harness.checkers.screen.totals import Irregular
from harness.history.event import Commit, Restore, Snap, Start

__all__ = ["Strand"]

_SAVED_MAX = 64
"""Snaps that are remembered of one subtask, where nothing retires them."""


class Strand:
    """Feed it what moves a subtask from one attempt to the next. Mutable."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.source = SourceMemory(account.ids.pending.append)
        self.lives: dict[int, Life] = {}
        """Those that are not known to be dead."""
        self.life = Life(0, account, self.source)
        """The latest."""
        self.attempts = 0
        self._newest = 0
        self.saved: dict[int, Saved] = {}
        self._epochs: dict[int, Saved] = {}
        """With transactional sinks, snaps whose commit may still come."""
        self._let_go: int | None = None
        """The highest checkpoint that is forgotten."""
        self._done_by: dict[int, int] = {}
        """Of each attempt the latest checkpoint that was completed with its snap."""
        self.committed: Saved | None = None
        self.completions = 0
        self.gap_from_t = 0
        self.last_end_t: int | None = None
        self._atomic = account.header.sink == "atomic"
        self._transactional = account.header.sink in {"atomic", "two-phase"}

    def start(self, event: Start) -> None:
        """A new attempt begins."""
        old = self.life
        if event.a <= self._newest:
            raise Irregular("attempts out of order")
        if old.over_t is None:
            old.over_t = event.t
        if not self._newest:
            self.gap_from_t = event.t
        self._newest = event.a
        self.attempts += 1
        life = self.life = self.lives[event.a] = Life(event.a, self.account, self.source)
        if event.from_ is None:
            if event.pos != 0:
                raise Irregular("a start from nothing at another position")
        else:
            self._go_on(life, self.saved[event.from_], event)
        if self.account.append and (old.outs, old.owms) != (life.outs, life.owms):
            raise Irregular("what was visible is emitted again")

    def restore(self, life: Life, event: Restore) -> None:
        """An attempt replays what was stored."""
        if life.restored or event.c != life.last_c:
            raise Irregular("a restore out of its place")
        assert life.epoch is not None  # where its `start` said that it stands
        life.epoch.replay(event, life)
        self.account.restores += 1

    def snap(self, life: Life, event: Snap) -> None:
        """A subtask's part of a checkpoint is taken."""
        if event.thread != life.thread:
            life.meet(event.thread)
        if not life.restored or life.partial is not None or event.pos != life.pos:
            raise Irregular("a snap out of its place")
        if life.last_c is not None and event.c <= life.last_c:
            raise Irregular("a snap of an old checkpoint")
        if life.failures.untold:
            self.account.suspect("V20")
        saved = Saved(event, life)
        if not self._transactional:
            saved.before = None
        life.last_c, life.epoch = event.c, saved
        self.account.snaps += 1
        self._keep(saved)

    def _keep(self, saved: Saved) -> None:
        """A snap is remembered for its completion, its commit and a restart, if it is the one that they mean."""
        older = self.saved.get(saved.c, self._epochs.get(saved.c))
        if older is not None and older.a > saved.a:
            return
        if self._transactional:
            self._epochs[saved.c] = saved
        if self._let_go is not None and saved.c <= self._let_go:
            return
        self.saved.pop(saved.c, None)
        self.saved[saved.c] = saved
        if len(self.saved) > _SAVED_MAX:
            self.forget(next(iter(self.saved)))

    def forget(self, c: int) -> None:
        """No checkpoint up to `c` will be restored any more."""
        if self._let_go is not None and c <= self._let_go:
            return
        self._let_go = c
        self.saved = {number: saved for number, saved in self.saved.items() if number > c}
        while len(self._epochs) > _SAVED_MAX:
            del self._epochs[next(iter(self._epochs))]
        if any(saved.completed for saved in self.saved.values()):
            reach = [saved.pos for saved in self.saved.values()]
            reach += [life.pos for life in self.lives.values() if not life.closed]
            self.source.let_go(min(reach))

    def complete(self, c: int) -> bool:
        """The coordinator completes a checkpoint; whether that completed a snap."""
        saved = self.saved.get(c)
        if saved is None:
            if (self._newest and not self.life.ended) or (self._let_go is not None and c <= self._let_go):
                raise Irregular("a checkpoint is completed without a snap")
            return False
        if self._atomic:
            return False
        saved.completed = True
        self._done_by[saved.a] = c
        return True

    def commit(self, event: Commit) -> None:
        """An epoch becomes visible."""
        saved = self._epochs[event.c]
        named = event.a is not UNSET
        if saved.superseded or (named and event.a != saved.a):
            raise Irregular("a commit out of its place")
        if not self._atomic and self._done_by.get(saved.a, event.c - 1) < event.c:
            raise Irregular("a commit before its checkpoint")
        self._pass(saved.before)
        self.committed = saved
        saved.before = None
        self._epochs = {c: epoch for c, epoch in self._epochs.items() if c > saved.c}
        self.account.commits += 1
        self.account.named_commits += named
        if self._atomic:
            self._complete_by_commit(saved, event)

    def visible(self) -> tuple[int, int]:
        """How many results and how many watermarks are in the effective output."""
        shown: Saved | Life | None = self.committed if self._transactional else self.life
        return (0, 0) if shown is None else (shown.outs, shown.owms)

    def finish(self, *, finished: bool, last_t: int) -> None:
        """The history is over."""
        life = self.life
        if finished:
            if life.pos != self.source.high:
                raise Irregular("what was accepted is not read to its end")
            if self._transactional:
                epoch = life.epoch
                if (life.outs, life.owms) != ((0, 0) if epoch is None else (epoch.outs, epoch.owms)):
                    raise Irregular("what left is in no epoch")
                self._pass(epoch)
        for other in self.lives.values():
            other.finish(last_t)
        if self._atomic:
            ended = life.ended and self.last_end_t is not None
            self._gap(self.last_end_t if ended and self.last_end_t is not None else last_t)

    def _go_on(self, life: Life, saved: Saved, event: Start) -> None:
        """A life begins where a snap stood."""
        if not saved.completed or saved.superseded or event.pos != saved.pos:
            raise Irregular("a start from what it must not start from")
        life.pos = saved.pos
        life.reading = life.restored = False
        life.final = saved.final
        life.last_pos = saved.last_pos
        life.outs, life.owms = life.shown_before = saved.outs, saved.owms
        life.last_c = saved.c
        life.epoch = saved
        if life.rows is not None:
            life.rows.sums = saved.sums
        self.account.restarts += 1

    def _pass(self, epoch: Saved | None) -> None:
        """From here back to what is committed nothing has left."""
        while epoch is not self.committed:
            if epoch is None or epoch.epoch_filled:
                raise Irregular("an epoch is passed over")
            epoch = epoch.before

    def _complete_by_commit(self, saved: Saved, event: Commit) -> None:
        saved.completed = True
        self.account.completed_snaps += 1
        self.completions += 1
        self.account.completed[saved.c] = None
        self._gap(event.t)

    def _gap(self, t: int) -> None:
        bound_ms = self.account.header.bounds.checkpoint_gap
        if bound_ms is not None and t - self.gap_from_t > bound_ms * US_PER_MS:
            self.account.suspect("V18")
        self.gap_from_t = t
