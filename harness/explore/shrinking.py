"""What shrinking any find needs: tries that are kept, delta debugging over lists, searches by halves.

Answers to delta debugging and to Hypothesis's shrinker, over the fields of a scenario. Invariants: each accepted step
shows the same invariant and kind of anomaly; what is smallest was run as it is; nothing is tried twice.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar

from pydantic import ValidationError

from harness.explore.smaller import Data, Path, at, in_words, with_value, without
from harness.history.verdict import Judgement
from harness.system.errors import Exit, UsageError

_ROUNDS_MAX: Final = 8


class AFind(Protocol):
    """A violation, and the run that shows it."""

    @property
    def seed(self) -> int: ...
    @property
    def invariant(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def shows(self) -> str:
        """`V8 lost`."""


class ASeenRun(Protocol):
    """One run, judged."""

    @property
    def judgement(self) -> Judgement: ...


F = TypeVar("F", bound=AFind)
S = TypeVar("S", bound=ASeenRun)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrinkStep:
    """A try to make it smaller."""

    what: str
    accepted: bool
    why: str = ""
    """Why not, if it was not accepted."""
    find: Any
    """The smallest so far, this step included."""


class NotShown(UsageError):
    """The run that is to be shrunk does not show its violation."""

    exit_code = Exit.UNDECIDED


class ShrinkingEnded(Exception):
    """Interrupted, or the time is over."""


@dataclass(slots=True, kw_only=True)
class Shrinking(Generic[F, S]):
    """One shrinking. Mutable: the smallest so far, and what has been tried."""

    find: F
    run: Callable[[F], S | None]
    on_step: Callable[[ShrinkStep], None]
    goes_on: Callable[[], bool]
    data: Data = field(default_factory=dict)
    """The smallest scenario, in JSON without defaults."""
    seen: S | None = None
    """The run of the smallest."""
    _tried: set[tuple[str, int]] = field(default_factory=set)

    @abstractmethod
    def candidate(self, data: Data, *, seed: int) -> F:
        """The find with another scenario. Raises ValidationError if `data` is none."""

    @abstractmethod
    def round(self) -> bool:
        """Try everything once; whether anything became smaller."""

    def rounds(self) -> None:
        """Rounds until nothing becomes smaller."""
        for _ in range(_ROUNDS_MAX):
            if not self.round():
                return

    def begin(self, data: Data, not_shown: NotShown) -> None:
        """Runs the find, whose scenario is `data`. Raises `not_shown`."""
        self.seen = self.run(self.find)
        if self.seen is None or not is_shown(self.seen, self.find):
            raise not_shown
        self.data = data

    def tries(self, data: Data, what: str, *, seed: int | None = None) -> bool:
        """Whether `data` shows the same; if so, it is the smallest now."""
        if not self.goes_on():
            raise ShrinkingEnded
        chosen = self.find.seed if seed is None else seed
        key = repr(data), chosen
        if key in self._tried or (data == self.data and chosen == self.find.seed):
            return False
        self._tried.add(key)
        try:
            candidate = self.candidate(data, seed=chosen)
        except ValidationError:
            return False
        why, seen = self.judged(candidate)
        if why == "":
            self.find, self.data, self.seen = candidate, data, seen
        self.on_step(ShrinkStep(what=what, accepted=why == "", why=why, find=self.find))
        return why == ""

    def judged(self, candidate: F) -> tuple[str, S | None]:
        """Why `candidate` is refused, and its run."""
        seen = self.run(candidate)
        if seen is None:
            return "it cannot be run", None
        if not is_shown(seen, candidate):
            shown = ", ".join(f"{invariant} {kind}" for invariant, kind in seen.judgement.shown)
            return f"it shows {shown or 'no violation'}", seen
        return "", seen

    def tries_less(self, data: Data, what: str) -> bool:
        """As `tries`, where a part is left out."""
        return self.tries(data, what)

    def fewer_faults(self) -> None:
        """Delta debugging over the faults, each named by its id."""

        def named(dropped: Sequence[Any], left: int) -> str:
            del left
            return f"without {', '.join(fault['id'] for fault in dropped)}"

        self._fewer(("faults",), named, self.tries_less)

    def fewer_of(self, path: Path, what: str) -> None:
        """Delta debugging over a list."""
        self._fewer(path, lambda dropped, left: f"{left} {what}", self.tries)

    def _fewer(
        self, path: Path, named: Callable[[Sequence[Any], int], str], tries: Callable[[Data, str], bool]
    ) -> None:
        """Without all, without halves, then without one after the other."""
        size = len(at(self.data, path) or ())
        while size:
            index = 0
            while index < len(listed := at(self.data, path) or ()):
                left = [*listed[:index], *listed[index + size :]]
                data = with_value(self.data, path, left) if left else without(self.data, path)
                if not tries(data, named(listed[index : index + size], len(left))):
                    index += size
            size //= 2

    def lower(self, path: Path, simpler: Sequence[Any]) -> None:
        """A search by halves for the first of `simpler` that shows it; the value that it has comes behind the last."""
        low, high = 0, len(simpler)
        while low < high:
            middle = low if low == 0 and high == len(simpler) else (low + high) // 2
            if self.lowers(path, simpler[middle]):
                high = middle
            else:
                low = middle + 1

    def lowers(self, path: Path, value: object) -> bool:
        """Whether it shows it with `value` there."""
        return self.tries(with_value(self.data, path, value), f"{in_words(path)}: {value}")

    def small_seed(self, count: int) -> None:
        """The least seed below `count` that shows it."""
        for seed in range(min(self.find.seed, count)):
            if self.tries(self.data, f"seed {seed}", seed=seed):
                return

    def name_plainly(self) -> None:
        """Each fault after its kind."""
        faults = self.data.get("faults", [])
        kinds = [fault["do"].replace("_", "-") for fault in faults]
        names = [kind if kinds.count(kind) == 1 else f"{kind}-{n}" for n, kind in enumerate(kinds, 1)]
        if faults and names != [fault["id"] for fault in faults]:
            renamed = [{**fault, "id": name} for fault, name in zip(faults, names, strict=True)]
            self.tries({**self.data, "faults": renamed}, "plain names")


def is_shown(seen: ASeenRun, find: AFind) -> bool:
    """Whether a run shows the violation of `find`."""
    return (find.invariant, find.kind) in seen.judgement.shown
