"""One subtask (`SubtaskScreen`) as the screen follows it, across its attempts and their snaps.

Answers to "Which snap", "Chain" and "Effective output" of `docs/reference/history.md`. Invariant: a life that
starts from a checkpoint starts from exactly what was open at its snap, so that the chain of lives reads like one;
with transactional sinks the commits of the chain come in its order, and nothing that left is passed over. Memory
grows with the snaps that may still be restored.
"""

from __future__ import annotations

from msgspec import UNSET

from harness.history.event import Ack, Commit, Restore, Snap, Start
from harness.judge.checkers.screen.account import US_PER_MS, Account
from harness.judge.checkers.screen.attempt import AttemptScreen, Saved, SourceMemory
from harness.judge.checkers.screen.tables import Epoch
from harness.judge.checkers.screen.totals import Irregular

_SAVED_MAX = 64
"""Most snaps remembered for one subtask if no `retire` event removes them."""


class SubtaskScreen:
    """The state of one subtask in the screen: its attempts, snaps, completions and commits. Mutable."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.source = SourceMemory(account.ids.pending.append)
        self.lives: dict[int, AttemptScreen] = {}
        """Attempts by number, except those that were killed."""
        self.life = AttemptScreen(0, account, self.source)
        """The latest attempt."""
        self.attempts = 0
        self._newest = 0
        self.saved: dict[int, Saved] = {}
        self._epochs: dict[int, Saved] = {}
        """With transactional sinks, the snaps whose commit may still come."""
        self._let_go: int | None = None
        """The highest checkpoint whose snaps are forgotten."""
        self._done_by: dict[int, int] = {}
        """For each attempt the latest checkpoint that was completed with its snap."""
        self.committed: Saved | None = None
        self.gap_from_t = 0
        self.last_end_t: int | None = None
        self._atomic = account.header.sink == "atomic"
        self._transactional = account.header.sink in {"atomic", "two-phase"}

    def start(self, event: Start) -> None:
        old = self.life
        if event.a <= self._newest:
            raise Irregular("attempts out of order")
        if old.over_t is None:
            old.over_t = event.t
        if not self._newest:
            self.gap_from_t = event.t
        self._ask(old, event)
        self._newest = event.a
        self.attempts += 1
        life = self.life = self.lives[event.a] = AttemptScreen(event.a, self.account, self.source)
        if event.from_ is None:
            if event.pos != 0:
                raise Irregular("a start without a checkpoint at a position other than 0")
            forgotten = self._let_go is not None or any(saved.completed for saved in self.saved.values())
            if forgotten and self.account.header.keeps is not None:
                self.account.suspect("V11")
        else:
            self._start_from(life, self.saved[event.from_], event)
        if self.account.append and (old.outs, old.owms) != (life.outs, life.owms):
            raise Irregular("a restart emits visible results again")

    def _ask(self, old: AttemptScreen, event: Start) -> None:
        """It is a restart if the attempt before lives on: neither ended nor failed nor killed."""
        lives_on = self._newest in self.lives and not old.ended and old.failures.reported_t is None
        if lives_on and self.account.explained:
            self.account.ask(event)

    def restore(self, life: AttemptScreen, event: Restore) -> None:
        """An attempt restores the elements of its snap."""
        if life.restored or event.c != life.last_c:
            raise Irregular("an unexpected restore")
        assert life.epoch is not None  # set when it started from that checkpoint
        life.epoch.replay(event, life)
        self.account.restores += 1

    def snap(self, life: AttemptScreen, event: Snap) -> None:
        if event.thread != life.thread:
            life.meet(event.thread)
        if not life.restored or life.partial is not None or event.pos != life.pos:
            raise Irregular("an unexpected snap")
        if life.last_c is not None and event.c <= life.last_c:
            raise Irregular("a snap of an old checkpoint")
        if life.failures.untold:
            self.account.suspect("V20")
        saved = Saved(event, life)
        if not self._transactional:
            saved.before = None
        life.pass_barrier(event.c)
        life.last_c, life.epoch = event.c, saved
        if life.filling is not None:
            life.filling = life.filling.end(event.c)
        self.account.snaps += 1
        self._keep(saved)

    def _keep(self, saved: Saved) -> None:
        """Remember a snap for its completion, commit and restore, unless a higher attempt has one of that number."""
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
        """Forget the snaps up to checkpoint `c`: none of them will be restored."""
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
        """The coordinator completes a checkpoint; returns whether that completed a snap of this subtask."""
        saved = self.saved.get(c)
        if saved is None:
            if (self._newest and not self.life.ended) or (self._let_go is not None and c <= self._let_go):
                raise Irregular("a checkpoint is completed without a snap")
            return False
        if not self.life.ended and not (saved.acknowledged and saved.a == self._newest):
            self.account.unacknowledged = True
        if self._atomic:
            return False
        saved.completed = True
        self._done_by[saved.a] = c
        return True

    def acknowledge(self, event: Ack) -> None:
        """The coordinator takes an acknowledgement; it counts if the attempt took its snap before."""
        saved = self.saved.get(event.c)
        if saved is not None and saved.a == event.a:
            saved.acknowledged = True

    def commit(self, event: Commit) -> None:
        saved = self._epochs[event.c]
        named = event.a is not UNSET
        if saved.superseded or (named and event.a != saved.a):
            raise Irregular("an unexpected commit")
        if not self._atomic and self._done_by.get(saved.a, event.c - 1) < event.c:
            raise Irregular("a commit before its checkpoint")
        self._check_uncommitted(saved.before)
        self.committed = saved
        saved.before = None
        if saved.filled is not None:
            saved.filled.is_committed = True
        self._epochs = {c: epoch for c, epoch in self._epochs.items() if c > saved.c}
        self.account.commits += 1
        self.account.named_commits += named
        if self._atomic:
            saved.completed = True
            self.account.completed_snaps += 1
            self.account.completed[saved.c] = None
            self._gap(event.t)

    def visible(self) -> tuple[int, int]:
        """The numbers of results and of watermarks in the effective output."""
        shown: Saved | AttemptScreen | None = self.committed if self._transactional else self.life
        return (0, 0) if shown is None else (shown.outs, shown.owms)

    def finish(self, *, finished: bool, last_t: int) -> None:
        life = self.life
        if finished:
            if life.pos != self.source.high:
                raise Irregular("the last attempt did not read all of the accepted input")
            if self._transactional:
                epoch = life.epoch
                if (life.outs, life.owms) != ((0, 0) if epoch is None else (epoch.outs, epoch.owms)):
                    raise Irregular("emissions after the last snap, which no epoch holds")
                self._check_uncommitted(epoch)
        for other in self.lives.values():
            other.finish(last_t)
        if self._atomic:
            ended = life.ended and self.last_end_t is not None
            self._gap(self.last_end_t if ended and self.last_end_t is not None else last_t)

    def _start_from(self, life: AttemptScreen, saved: Saved, event: Start) -> None:
        """Set up a new attempt from the snap that it starts from."""
        if not saved.completed or saved.superseded or event.pos != saved.pos:
            raise Irregular("a start from a snap that was not completed, or at another position")
        life.pos = saved.pos
        life.reading = life.restored = False
        life.final = saved.final
        life.last_pos = saved.last_pos
        life.outs, life.owms = life.shown_before = saved.outs, saved.owms
        life.last_c = saved.c
        life.barrier *= saved.c + 1
        life.epoch = saved
        if life.rows is not None:
            life.rows.sums = saved.sums
        if saved.filled is not None:
            life.filling = Epoch(life.a, before=saved.filled)
        self.account.restarts += 1

    def _check_uncommitted(self, epoch: Saved | None) -> None:
        """Require that the epochs between `epoch` and the last committed one are empty."""
        while epoch is not self.committed:
            if epoch is None or epoch.epoch_filled:
                raise Irregular("an epoch with emissions that is not committed")
            epoch = epoch.before

    def _gap(self, t: int) -> None:
        bound_ms = self.account.header.bounds.checkpoint_gap
        if bound_ms is not None and t - self.gap_from_t > bound_ms * US_PER_MS:
            self.account.suspect("V18")
        self.gap_from_t = t
