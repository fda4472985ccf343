"""Two judges that share no code find the same: the checkers, and the page read literally and slowly.

On wild histories, on legal ones, and on legal ones with one or several blind mutations: for each invariant the same
outcome and the same anomalies (class, subtask, id or watermark, checkpoint, table, `j`), each as often, with the event
that shows it among its witnesses; and one verdict.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from multiprocessing import get_context
from typing import Any

import pytest

from harness.history.event_fields import claims_of, well_formed
from harness.history.header import Header, parse_header
from harness.history.read import open_text
from harness.history.verdict import Judgement
from harness.judge.checkers.judge import Malformed, judge, judge_reader
from harness.judge.checkers.second_opinion import compared
from harness.judge.checkers.tests.added_claims import with_claims
from harness.judge.checkers.tests.blind_mutations import mutated
from harness.judge.checkers.tests.dense_histories import (
    acknowledged_history,
    caused_history,
    tabled_history,
    versioned_history,
)
from harness.judge.checkers.tests.dressed_histories import dressed_history
from harness.judge.checkers.tests.rescaled_histories import rescaled_history, wrongly_rescaled
from harness.judge.checkers.tests.retried_histories import legal_retries, retried_history
from harness.judge.checkers.tests.small_histories import (
    answered,
    ended,
    history,
    left,
    owm,
    stall,
    start,
    text,
    took,
    wm,
)
from harness.judge.checkers.tests.wild_histories import wild_history
from harness.judge.second_judge import opinions
from harness.system.choices import Choices, Draw
from harness.system.clock import Deadline
from tools.cases import each, in_sweep_after

Json = dict[str, Any]


def first(quick: int, *, of: int) -> list[Any]:
    """The numbers of `of` batches; those after the first few belong to tier sweep."""
    return [
        *range(quick),
        *(pytest.param(number, marks=pytest.mark.sweep) for number in range(quick, of)),
    ]


BATCHES, LEGAL, DENSE_BATCHES = first(4, of=24), first(4, of=20), first(1, of=6)
WILD_EACH, DENSE_EACH = 15, 8
SOAK_S = 60
COMPARED, CHUNK = 20_000, 250
"""How many histories of form 1.1 are compared at tier sweep, and how many of one kind in a go."""
DRAWN, SHOWN_LEAST = 250, 5
"""Of so many histories of each kind, at least so many show each class of form 1.1."""


def zigzag(seed: int) -> list[Json]:
    """Watermarks that go up and down, and leave in any order, some of them several times."""
    choices = Choices(seed, "watermarks that go up and down")
    source = [choices.index(7) for _ in range(choices.between(3, 14))]
    leaving = [source[choices.index(len(source))] for _ in range(choices.between(2, 14))]
    marks = [wm(w, pos) for pos, w in enumerate(source)]
    coalesces = {"coalesces_watermarks": choices.index(3) == 0}
    return history(start(), marks, [owm(w) for w in leaving], ended(), operator=coalesces)


def waiting(seed: int) -> list[Json]:
    """Watermarks that wait for records, which their outcomes may reopen, under a bound, and some stalls."""
    choices = Choices(seed, "watermarks that wait")
    told, ms, pos = [start(ms=0)], 0, 0
    for _ in range(choices.between(4, 30)):
        ms += [0, 1, 5, 20][choices.index(4)]
        number = choices.index(4)
        substitute = {"r": "timeout", "v": ["v"] * number}
        active = sum({"begin": 1, "end": -1}[e["phase"]] for e in told if e["k"] == "fault")
        kinds = [
            took(pos, pos, ms=ms), took(pos, pos, ms=ms), wm(number % 3, pos, ms=ms), wm(number % 3, pos, ms=ms),
            owm(number % 3, ms=ms), owm(number % 3, ms=ms), left(number, ms=ms), left(number, ms=ms),
            left(number, j=1, ms=ms), answered(number, ms=ms, **(substitute if choices.index(2) else {})),
            stall("end", ms=ms) if active and choices.index(3) else stall("begin", ms=ms, stalls=number > 1),
        ]  # fmt: skip
        told.append(kinds[choices.index(len(kinds))])
        pos += told[-1]["k"] in {"in", "wm"}
    operator = {"timeout_ms": 1, "coalesces_watermarks": choices.index(2) == 0}
    bound_ms = [0, 4, 10][choices.index(3)]
    return history(told, operator=operator, bounds={"watermark_hold": bound_ms})


def mutant(seed: int, most: int) -> list[Json]:
    return mutated(dressed_history(seed), Choices(seed, "blind mutations"), most=most)


def mutants(history: Callable[[int], list[Json]]) -> Callable[[int], list[Json]]:
    """Of the histories of a kind, each with one or several blind mutations."""
    return lambda seed: mutated(history(seed), Choices(seed, "blind mutations"), most=1 + seed % 3)


def wild_with_claims(seed: int) -> list[Json]:
    return with_claims(wild_history(seed), seed)


def legal_with_claims(seed: int) -> list[Json]:
    return with_claims(dressed_history(seed), seed)


DENSE = [
    tabled_history,
    acknowledged_history,
    caused_history,
    versioned_history,
    retried_history,
    legal_retries,
]
OF_FORM_1_1 = {
    **{drawn.__name__: drawn for drawn in [*DENSE, wild_with_claims, legal_with_claims]},
    **{f"mutated {drawn.__name__}": mutants(drawn) for drawn in [*DENSE, legal_with_claims]},
}
RESCALED = {
    "rescaled": rescaled_history,
    "wrongly rescaled": wrongly_rescaled,
    "mutated rescaled": mutants(rescaled_history),
}
NEW_CLASSES = {
    "V8": {"row-missing", "row-doubled", "row-foreign", "row-altered", "row-disordered", "inconsistent",
           "stale", "future"},
    "V9": {"row-missing", "row-deleted", "row-doubled", "row-foreign", "row-altered"},
    "V10": {"two-ends", "stale-ack", "incomplete"},
    "V15": {"retry-missing", "retry-early", "retry-late", "gave-up-early", "retried-anyway"},
    "V20": {"row-missing", "row-doubled", "row-foreign", "row-altered"},
    "V24": {"unexplained-failure"},
}  # fmt: skip
"""Those that form 1.1 adds, or adds something to."""


def disagreements(lines: list[Json]) -> list[str] | None:
    """On which invariants the two judges differ, with and without the screen; None: the history is malformed."""
    exact = judge_reader(open_text(text(lines)))
    if isinstance(exact, Malformed):
        return None
    given = opinions(lines)
    assert [v.invariant for v in exact.invariants] == list(given)
    first, screen = compared(exact, lines, given), compared(screened(lines), lines, given)
    return [*first.differs, *(f"screened: {told}" for told in screen.differs)]


def screened(lines: list[Json]) -> Judgement:
    """The judgement of a well-formed history whose regular parts the screen acquits."""
    header = parse_header(lines[0])
    assert isinstance(header, Header), header
    events = [well_formed(line, claims_of(header)).event for line in lines[1:]]
    assert None not in events
    return judge(header, [event for event in events if event is not None])


@pytest.mark.parametrize("batch", BATCHES)
def test_the_two_judges_agree_on_wild_histories(batch: int) -> None:
    for seed in range(batch * WILD_EACH, (batch + 1) * WILD_EACH):
        assert disagreements(wild_history(seed)) == [], seed


@each("batch", range(2))
@each("drawn", [zigzag, waiting])
def test_the_two_judges_agree_on_watermarks_that_go_up_and_down_or_wait(
    drawn: Callable[[int], list[Json]], batch: int
) -> None:
    for seed in range(batch * 20, batch * 20 + 20):
        assert disagreements(drawn(seed)) == [], seed


@pytest.mark.parametrize("seed", LEGAL)
def test_the_two_judges_agree_on_legal_histories(seed: int) -> None:
    assert disagreements(dressed_history(seed)) == []


@each("seed", range(20))
def test_the_two_judges_agree_on_calls_beside_waits_for_the_sink(seed: int) -> None:
    lines, draw = retried_history(seed), Draw(seed, "waits")
    for _ in range(draw.between(1, 4)):
        place = draw.between(1, len(lines) - 1)
        begun = [line for line in lines[1:place] if line["k"] == "start"]
        if not begun:
            continue
        start, before = draw.one_of(*begun), lines[place - 1]
        held = {
            "k": "held",
            "s": start["s"],
            "a": start["a"],
            "since": max(0, before["t"] - draw.between(0, 90_000)),
        }
        lines.insert(place, {"n": 0, "t": before["t"], **held})
    lines[1:] = [{**line, "n": n} for n, line in enumerate(lines[1:], 1)]

    assert disagreements(lines) in ([], None)


@each("seed", range(40))
def test_the_two_judges_agree_on_a_reader_that_reads_otherwise_than_before(seed: int) -> None:
    lines, draw = dressed_history(seed), Draw(seed, "misreading")
    lines[0]["fixed_source"] = True
    read = [line for line in lines[1:] if line["k"] in {"in", "wm"}]
    for line in [draw.one_of(*read) for _ in range(draw.between(1, 3))] if read else []:
        other = draw.one_of(*read)
        match draw.between(0, 3):
            case 0:
                line["pos"] += draw.one_of(-1, 1, 40)
            case 1 if other["k"] == line["k"] == "in":
                line["id"] = other["id"]
            case 2 if line["k"] == "in":
                line["key"] = "another"
            case 3 if line["k"] == "in":
                line["ts"] = 7
            case _:
                continue

    assert disagreements(lines) == []


@pytest.mark.parametrize("batch", BATCHES)
def test_the_two_judges_agree_on_mutated_histories(batch: int) -> None:
    """Some are malformed by their mutations; the first that is not is judged."""
    for seed in range(batch * WILD_EACH, (batch + 1) * WILD_EACH):
        found = disagreements(mutant(seed, 1 + batch % 4))
        if found is not None:
            assert found == [], seed
            return
    pytest.fail(f"all of {WILD_EACH} mutated histories were malformed")


@pytest.mark.parametrize("batch", DENSE_BATCHES)
@each("drawn", [*DENSE, wild_with_claims], ids=lambda drawn: drawn.__name__)
def test_the_two_judges_agree_on_what_form_1_1_adds(drawn: Callable[[int], list[Json]], batch: int) -> None:
    for seed in range(batch * DENSE_EACH, (batch + 1) * DENSE_EACH):
        assert disagreements(drawn(seed)) == [], seed


@pytest.mark.parametrize("seed", LEGAL)
def test_the_two_judges_agree_on_legal_histories_with_claims(seed: int) -> None:
    assert disagreements(legal_with_claims(seed)) == []


@pytest.mark.parametrize("seeds", in_sweep_after(1, [range(12), range(12, 48)]))
@each("kind", RESCALED)
def test_the_two_judges_agree_on_histories_that_rescale(kind: str, seeds: range) -> None:
    for seed in seeds:
        assert not disagreements(RESCALED[kind](seed)), seed


def test_a_legal_history_that_rescales_is_not_convicted() -> None:
    for seed in range(16):
        judgement = screened(rescaled_history(seed))

        assert not judgement.convicted(), (seed, judgement.convicted())


def differing(kind: str, seeds: range) -> list[tuple[str, int, list[str]]]:
    """Of a kind of `OF_FORM_1_1`."""
    found = [(kind, seed, disagreements(OF_FORM_1_1[kind](seed))) for seed in seeds]
    return [(kind, seed, names) for kind, seed, names in found if names]


@pytest.mark.parametrize(
    "compared",
    [
        pytest.param(COMPARED // 8, marks=pytest.mark.sweep),
        pytest.param(COMPARED, marks=pytest.mark.soak),
    ],
)
@pytest.mark.timeout(1800)
def test_the_two_judges_agree_on_so_many_histories_of_form_1_1(compared: int) -> None:
    each = compared // len(OF_FORM_1_1)
    chunks = [
        (kind, range(begin, min(begin + CHUNK, each)))
        for kind in OF_FORM_1_1
        for begin in range(0, each, CHUNK)
    ]
    with ProcessPoolExecutor(mp_context=get_context("fork")) as pool:
        found = [one for ones in pool.map(differing, *zip(*chunks, strict=True)) for one in ones]

    assert not found


@pytest.mark.sweep
@pytest.mark.timeout(600)
def test_every_class_that_form_1_1_adds_is_drawn_often_enough_to_be_compared() -> None:
    shown: Counter[tuple[str, str]] = Counter()
    passing: Counter[str] = Counter()
    for drawn in [*DENSE, wild_with_claims, legal_with_claims]:
        for seed in range(DRAWN):
            judged = opinions(drawn(seed))
            shown.update({(name, told.kind) for name, given in judged.items() for told in given.findings})
            passing.update(name for name, given in judged.items() if given.outcome == "pass")

    rare = [(name, kind) for name, kinds in NEW_CLASSES.items() for kind in kinds
            if shown[name, kind] < SHOWN_LEAST]  # fmt: skip
    assert not rare, shown
    assert all(passing[name] >= SHOWN_LEAST for name in NEW_CLASSES), passing


SOAKED: dict[str, Callable[[int], list[Json]]] = {
    **OF_FORM_1_1,
    **RESCALED,
    "wild": wild_history,
    "legal": dressed_history,
    "mutated once": lambda seed: mutant(seed, 1),
    "mutated": lambda seed: mutant(seed, 3),
}


@pytest.mark.soak
@pytest.mark.parametrize("history", SOAKED.values(), ids=SOAKED)
def test_the_two_judges_agree_for_a_minute(history: Callable[[int], list[Json]]) -> None:
    deadline = Deadline(SOAK_S)
    for seed in count(1_000_000):
        assert not disagreements(history(seed)), seed
        if deadline.passed:
            return


MUTATED = {kind: history for kind, history in SOAKED.items() if kind.startswith("mutated")}
MUTATED_COMPARED = 50_000


def mutated_share(kind: str, seeds: range, least: int) -> tuple[int, list[tuple[str, int, list[str]]]]:
    """How many of a kind were compared, of `seeds` until `least` were not malformed; and those that differ."""
    compared_here, differ = 0, []
    for seed in seeds:
        found = disagreements(MUTATED[kind](seed))
        compared_here += found is not None
        differ += [(kind, seed, found)] if found else []
        if compared_here == least:
            break
    return compared_here, differ


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_the_two_judges_agree_on_fifty_thousand_mutated_histories() -> None:
    """Malformed ones are not counted."""
    each, batches = -(-MUTATED_COMPARED // (len(MUTATED) * 10)), range(10)
    shares = [
        (kind, range(10_000_000 * batch, 10_000_000 * (batch + 1))) for batch in batches for kind in MUTATED
    ]
    with ProcessPoolExecutor(mp_context=get_context("fork")) as pool:
        found = list(pool.map(mutated_share, *zip(*shares, strict=True), [each] * len(shares)))
    compared_all = sum(count for count, _ in found)
    differ = [one for _, some in found for one in some]
    sys.stdout.write(f"{compared_all} mutated histories of {len(MUTATED)} kinds, {len(differ)} differ\n")

    assert not differ
    assert compared_all >= MUTATED_COMPARED
