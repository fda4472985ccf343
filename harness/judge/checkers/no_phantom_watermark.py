"""V7 no phantom: a watermark leaves only if it came in, no more often than it did, and nothing follows the final one.

Answers to FLINK-36859 (an epoch that ended twice) and to a final watermark that leaves before the queue has
drained. Invariant: the value of each `owm` is in its attempt's input by then; O* holds no watermark value more
often than the subtask's input; in O* nothing follows the watermark `"end"`. O(n); memory grows with the distinct
watermarks.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.history.event import Out, Owm, Restore, W, Wm
from harness.history.values import shown
from harness.history.verdict import Anomaly
from harness.judge.checkers.history_trace import AttemptTrace
from harness.judge.checkers.indexed_history import SubtaskView
from harness.judge.checkers.inputs import Mark, elements_of
from harness.judge.checkers.invariant import Findings, Invariant
from harness.judge.checkers.outputs import Shown


class NoPhantomWatermark(Invariant):
    """Checks V7 for each attempt and for O*."""

    name = "V7"
    vacuous = "no watermark came in or left"

    def examine(self, view: SubtaskView) -> Findings:
        """Each phantom watermark, each repeated one, and each emission after the final one."""
        attempts = view.subtask.attempts.values()
        phantoms = [anomaly for attempt in attempts for anomaly in _phantoms(attempt)]
        left = sum(isinstance(e, Owm) for attempt in attempts for e in attempt.emissions)
        anomalies = (*phantoms, *_repeated(view), *_after_end(view))
        return Findings(anomalies=anomalies, observed=left, exposed=view.case.watermarks_seen)


def _phantoms(attempt: AttemptTrace) -> Iterator[Anomaly]:
    come: set[W] = set()
    for event in attempt.events:
        match event:
            case Restore():
                come.update(element.w for element in elements_of(event.elements) if isinstance(element, Mark))
            case Wm():
                come.add(event.w)
            case Owm() if event.w not in come:
                say = (
                    f"watermark {shown(event.w)} leaves attempt {event.a} of subtask {event.s}, which by then"
                    " has neither taken in nor restored such a watermark"
                )
                yield Anomaly(kind="phantom-watermark", s=event.s, w=event.w, events=(event.n,), say=say)
            case _:
                pass


def _repeated(view: SubtaskView) -> Iterator[Anomaly]:
    """Each watermark in O* beyond the number of its positions in the source, reported once."""
    last: dict[W, Shown] = {}
    found: dict[int, Anomaly] = {}
    for entry, mark in zip(view.output, view.output_marks, strict=True):
        owm = entry.emission
        if isinstance(owm, Owm) and (positions := view.source.positions_of.get(owm.w)):
            if mark is None and owm.n not in found:
                found[owm.n] = _repeat(view, entry, last[owm.w], owm, len(positions))
            last[owm.w] = entry
    yield from found.values()


def _repeat(view: SubtaskView, entry: Shown, before: Shown, owm: Owm, times: int) -> Anomaly:
    often = "once" if times == 1 else f"{times} times"
    return Anomaly(
        kind="repeated-watermark",
        s=view.s,
        w=owm.w,
        events=tuple(sorted({*before.witness, *entry.witness})),
        say=f"watermark {shown(owm.w)} is visible again, but the source of subtask {view.s} has it only {often}",
    )


def _after_end(view: SubtaskView) -> Iterator[Anomaly]:
    """Each emission in O* after the final watermark, reported once."""
    end: Shown | None = None
    found: dict[int, Anomaly] = {}
    for entry in view.output:
        emission = entry.emission
        if end is not None:
            found.setdefault(emission.n, _late(view, entry, end))
        elif isinstance(emission, Owm) and emission.w == "end":
            end = entry
    yield from found.values()


def _late(view: SubtaskView, entry: Shown, end: Shown) -> Anomaly:
    events = tuple(sorted({*end.witness, *entry.witness}))
    where = f"of subtask {view.s} is visible after the final watermark, which nothing may follow"
    match entry.emission:
        case Out() as out:
            say = f"output {out.j} of record {shown(out.id)} {where}"
            return Anomaly(kind="after-end", s=view.s, id=out.id, events=events, say=say)
        case Owm() as owm:
            say = f"watermark {shown(owm.w)} {where}"
            return Anomaly(kind="after-end", s=view.s, w=owm.w, events=events, say=say)
