"""V7 no phantom: a watermark leaves only if it came in, no more often than it did, and nothing follows the final one.

Answers to FLINK-36859 (an epoch that ended twice) and to a final watermark that leaves before the queue has
drained. Invariant: the value of each `owm` is in its attempt's input by then; O* holds no watermark value more
often than the subtask's input; in O* nothing follows the watermark `"end"`. O(n); memory grows with the distinct
watermarks.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.history.event import Owm, Restore, W, Wm
from harness.history.values import shown
from harness.history.verdict import Anomaly, let, let_all
from harness.judge.checkers.facts import places
from harness.judge.checkers.history_trace import AttemptTrace
from harness.judge.checkers.indexed_history import SubtaskView
from harness.judge.checkers.inputs import Mark, elements_of
from harness.judge.checkers.invariant import Findings, Invariant, convict
from harness.judge.checkers.outputs import Shown, visible


class NoPhantomWatermark(Invariant):
    """Checks V7 for each attempt and for O*."""

    name = "V7"
    vacuous = "no watermark came in or left"

    def examine(self, view: SubtaskView) -> Findings:
        """Each phantom watermark, each repeated one, and each emission after the final one."""
        attempts = view.subtask.attempts.values()
        phantoms = [anomaly for attempt in attempts for anomaly in _phantoms(view, attempt)]
        left = sum(isinstance(e, Owm) for attempt in attempts for e in attempt.emissions)
        anomalies = (*phantoms, *_repeated(view), *_after_end(view))
        return Findings(anomalies=anomalies, observed=left, exposed=view.case.watermarks_seen)


def _phantoms(view: SubtaskView, attempt: AttemptTrace) -> Iterator[Anomaly]:
    come: set[W] = set()
    for event in attempt.events:
        match event:
            case Restore():
                come.update(element.w for element in elements_of(event.elements) if isinstance(element, Mark))
            case Wm():
                come.add(event.w)
            case Owm() if event.w not in come:
                yield _phantom(view, event)
            case _:
                pass


def _phantom(view: SubtaskView, owm: Owm) -> Anomaly:
    def then() -> Iterator[str]:
        marks = view.all_marks(owm.w)
        if own := [mark.n for mark in marks if mark.a == owm.a]:
            yield f"Attempt {owm.a} took it in only at {let(own[0])}, after {let(owm.n)}."
        elif marks:
            came = f"It came in at {let(marks[0].n)}, in attempt {marks[0].a}"
            yield f"{came}, but not in attempt {owm.a}."
        else:
            yield places(view, owm.w)
        neither = f"attempt {owm.a} had neither taken in nor restored watermark {shown(owm.w)}"
        yield f"By {let(owm.n)} {neither}."

    say = (
        f"watermark {shown(owm.w)} leaves attempt {owm.a} of subtask {owm.s}, which by then"
        " has neither taken in nor restored such a watermark"
    )
    rule = "an attempt emits only watermarks that it took in or restored"
    return convict("phantom-watermark", owm.s, (owm.n,), say, then, rule, w=owm.w)


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

    def then() -> Iterator[str]:
        owms = sorted({before.emission.n, owm.n})
        again = "twice" if len(owms) == 1 else "again"
        yield f"Watermark {shown(owm.w)} is visible {again}: {let_all(owms)}."
        yield places(view, owm.w)

    say = f"watermark {shown(owm.w)} is visible again, but the source of subtask {view.s} has it only {often}"
    rule = "a watermark is visible as often as its value has positions in the source, and no more"
    return convict("repeated-watermark", view.s, {*before.witness, *entry.witness}, say, then, rule, w=owm.w)


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
    shown_late = entry.emission
    what = (
        f"watermark {shown(shown_late.w)}"
        if isinstance(shown_late, Owm)
        else f"output {shown_late.j} of record {shown(shown_late.id)}"
    )
    say = f"{what} of subtask {view.s} is visible after the final watermark, which nothing may follow"
    late, first = shown_late, end.emission
    if isinstance(late, Owm) and late.w == "end" and late.n < first.n:
        late, first = first, late
    then = [f"{let(first.n)} is the final watermark.", f"{visible(late.n, 'after', first.n)}."]
    if late is first:
        then = [f"{let(first.n)}, the final watermark, is visible again after itself."]
    rule = "nothing follows the final watermark"
    events = {*end.witness, *entry.witness}
    return convict("after-end", view.s, events, say, then, rule, about=shown_late)
