"""Generates `docs/reference/statements.md`: the numbered statements with their tests, or why one has none.

`python -m tools.pages.statement_page` rewrites it. Invariant: every number from A1 to A93, M1 to M49, T1 to T16, C1 to
C45, S1 to S25 and W1 to W3 has a title; a title's position in its list is its number.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from harness.system.errors import Exit

_OPERATOR = """
eight ways to build one; capacity 100 unless said otherwise
a capacity below one is refused
timeout 0 is none; retry needs one
retry is on with a strategy that has a predicate
mode and capacity are configuration, and not state
one function a subtask, called on the task's thread
a full queue refuses and stays as it was
watermarks and statuses take a slot
nothing else is queued
one emission step lets one entry leave
a finished entry keeps its slot until it has left
a queue lists the inputs that have not left
a watermark is born finished
room in the queue can be asked for, and waited for
ordered: first in, first out, for all kinds
ordered: output is in the order of arrival
ordered: a slow head holds up all behind it
unordered: a record joins the last segment
unordered: a watermark is a segment of its own
unordered: only the first segment emits
unordered: inside a segment, in the order of processed completions
unordered: one segment always remains
unordered: what finishes in a later segment waits
an entry finishes once
a snapshot lists segment after segment
unordered with a watermark behind each record is ordered
admission: copy, slot, timer, call
the timeout counts from the slot, and the call's own time counts
records are copied only where they are used again
waiting for a slot runs no upstream mail, so no checkpoint
a timeout may free the slot that is waited for
the capacity bounds what is queued, and not what runs outside
a full queue stops the reading, and not the task
what the function raises when called fails the task
an outcome is a list; nothing is no outcome
the first outcome wins
an outcome becomes mail, and is never acted on in its caller's frame
one emission a mail; a closed mailbox is no error
a record's results stay together and in order
outputs carry their input's timestamp
a failed call fails the task at once, and frees its slot
a supplier runs on the task's thread
an accepted outcome keeps the timeout handler from being called
by default a timeout fails the task
a handler may answer with substitutes
a handler that answers nothing keeps its slot
what the handler raises fails the task
a processed outcome cancels its timer
when a timer is due
timers are not in a snapshot
a watermark is queued, and leaves an empty queue at once
watermarks keep their place, all of them
event time moves no timer of the operator
markers and attributes overtake what is in flight
a watermark status keeps its place
a snapshot is the list of queued inputs
a snapshot neither waits for calls nor disturbs them
what is in a snapshot, and what is not
each input's outputs appear once in what survives
a state that cannot be written fails the checkpoint
a restore replays through the ordinary way in
more elements than slots can be restored
a snapshot right after a restore holds the restored again
state is split when the parallelism changes
state holds the serialized input
the end of input drains
an empty queue drains at once, a hanging call never
cancelled, the operator drops its queue; late outcomes do nothing
close releases the function, once, and waits for nothing
one open and one close, after a failure too
one handle's key for all attempts of a record
when an attempt is followed by another
so many retries are one call more
results and errors have a predicate each
the last attempt's outcome stands
an attempt's first outcome counts, for that attempt
a record in backoff keeps its slot
the backoff ends as mail, and calls again
one timeout covers all attempts
after the timeout no attempt; the handler's word is final
a timeout always leads to an end
fixed and exponential delays
the ready-made predicates
the strategy that never retries
the end of input makes one last call for who waits
a running retry and a finished record get no last call
a predicate or a backoff that raises fails the task
attempts and time begin anew after a restore
asynchronous operators can be chained
in a chain no emission is re-entered
the function's context is restricted
the operator has no metrics of its own
no side outputs, no keyed state, no event-time timers
"""
_MAILBOX = """
open, quiesced, closed, and no way back
any thread puts, into an open mailbox only
only the task's thread takes, until it is closed
batches and questions are the task's thread's
each accepted mail comes out once
a queue for all, a batch for the task's thread
priorities filter, and do not sort
deferrable mail has the lowest priority
a take waits for mail that fits
a turn takes urgent mail, then its batch
a turn begins by fixing its batch
batches do not show
mail put during a turn waits for the next
where urgent mail is put
how urgent mail is pulled ahead
urgent mail is first, and in its own order
known holes in that, as variants
a group of mails can be put without gaps
a put wakes a take that it fits
foreign threads see no half-made mailbox
only a future can be cancelled
what a mail raises fails the task
what a submitted call raises is its future's
a yield runs one mail
a yield runs no upstream and no deferrable mail
any mail is a reason to interrupt
what idle means
once all is finished, the loop runs no more
running the loop needs its thread and an open mailbox
a loop with nothing to do waits, and does not spin
all mail at the top of a turn comes before the default action
single steps
the loop can be left and entered again, or ended
control mail is urgent; without a loop it is dropped
an error can be reported from any thread
the default action can be suspended and resumed
closing cancels what was not run
a drain runs what is there
rest is counted, mail is not
mails are counted before they run
the status of the input decides: go on, wait, end
one reason to wait at a time, output before input
times for reasons to wait never overlap
a drain emits the last watermark and finishes; a stop without drain does neither
each operator finishes wholly before the next begins
restore: operators from the tail, then what was in flight, then work
after the loop: last checkpoint, quiesce, drain, flush, close
a batch of records ends where mail waits or the output is full
cancel is safe at any time
"""
_TIMERS = """
a timer never fires early
a callback is mail
a cancelled timer does not fire; its mail, once put, runs
what a callback raises fails the task
firing into a closed mailbox is no failure
a quiesced service registers nothing
quiescing cancels what is pending
fixed rate and fixed delay
in virtual time a timer is due at its instant
timers are a set of key, namespace and time
one physical timer, for the earliest
a watermark fires what is due, in order, and is already current
a long advance makes room for mail, and goes on as one deferrable mail
a snapshot between two firings holds those to come
a restored timer is armed again; one overdue fires at once
no timer after close, none registered by finish
"""
_CHECKPOINTS = """
an old number does nothing
an aborted one is passed on as cancelled
barrier first, then snapshots from the tail
from the barrier to the last snapshot nothing else runs
an error in the synchronous part fails the task
order within an operator
later changes do not reach a snapshot
the asynchronous part ends once: reported, or discarded
a failed write declines and the task lives
no state is told as none
one asynchronous part a number
an abort cancels what runs, or is remembered
who is told of complete, aborted, subsumed
a completion is told once, and an abort brings the one that was missed
notifications are urgent mail, in order
a task that does not run declines
a synchronous savepoint ends the task
a task stays for its last checkpoint
a finished operator is told as finished
an old barrier is ignored and blocks nothing
a newer barrier ends the pending one
aligned: blocked until the last barrier
the end of a channel counts as its barrier
a cancellation marker ends its checkpoint once
what an abort does
an alignment that takes too long becomes unaligned
unaligned: cut at the first barrier, capture the rest
each record is in one place
a savepoint captures nothing in flight
at least once: count, never block
alignment is measured
savepoints first, few at a time
the pause counts from the last completion
what an acknowledgement can be
durable, then subsume, then notify
how one fails: time, refusal, a task's failure
the highest completed is restored
notifications may be lost, late, or of strangers
an abort is not a discard
a snapshot closes one transaction and opens the next
commit all up to the number, in order
restore: commit what was prepared, abort what was open
commit and abort can be repeated
a commit that fails at recovery may be passed over only if told to, and only after its time
initialise before open; restored is told
"""
_STATE = """
state belongs to operator, name, key and namespace
the name is the identity
value state
list state
reducing and aggregating state
map state
namespaces can be merged
key groups
restore at any parallelism
the window of two by count
a value expires by processing time
what refreshes the stamp
what a reader sees of the expired
what expires at a time
combining with the expired starts anew
cleaning up is not seen
the life is configuration, and not state
operator state is split, united or broadcast
at the same parallelism
split evenly, the rest going round
nothing is lost by a split
united and broadcast at another parallelism
a snapshot of operator state is a copy
broadcast state is written on its own side only
a function with a checkpoint
"""
_WATERMARKS = """
the least of the channels that count
a channel that wakes counts when it has caught up
idle together
"""


def _numbered(letter: str, titles: str) -> Mapping[str, str]:
    return {f"{letter}{number}": title for number, title in enumerate(titles.strip().splitlines(), start=1)}


TITLES: Mapping[str, str] = MappingProxyType(
    {
        **_numbered("A", _OPERATOR),
        **_numbered("M", _MAILBOX),
        **_numbered("T", _TIMERS),
        **_numbered("C", _CHECKPOINTS),
        **_numbered("S", _STATE),
        **_numbered("W", _WATERMARKS),
    }
)
"""The title of each statement, by number."""

OUT_OF_SCOPE: Mapping[str, str] = MappingProxyType(
    {
        "A65": "elements are kept as plain values that declare no type, so none can become incompatible",
        "A91": "an asynchronous function is a plain object and gets no context, so there is nothing to restrict",
        "A93": "there is no such thing to be asked for",
        "M6": "void: the batch is a number of mails at the head of the one queue, and no flag stands for a lock",
        "M14": "void: urgent mail has a queue of its own; Flink's way is planted in `tools/defects/mailboxes.py`",
        "M15": "void: nothing has to be pulled; Flink's way is planted in `tools/defects/mailboxes.py`",
    }
)
"""Why a statement has no test, by number."""

_NO_COORDINATOR = (
    "`harness/database/coordinator.py` completes the checkpoints of a run, by its own rules (decision 23)"
)
NOT_BUILT: Mapping[str, str] = MappingProxyType(
    {
        "T8": "a callback that wants another call registers it",
        "C30": "every barrier is aligned or unaligned",
        **dict.fromkeys(("C32", "C33", "C34", "C35", "C36", "C37"), _NO_COORDINATOR),
    }
)
"""What is there instead of a statement that nothing here holds, by number."""


ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "statements.md"

_FOLDERS = ("reference_impl", "harness")
_LETTERS: Mapping[str, str] = {
    "A": "A: the operator",
    "M": "M: the mailbox and its loop",
    "T": "T: timers",
    "C": "C: checkpoints",
    "S": "S: state",
    "W": "W: watermarks of several channels",
}
_OPENING = """\
# Statements and their tests

Made by `python -m tools.pages.statement_page`; do not edit.

Numbered statements say what an asynchronous wait operator and the task around it have to do;
[references](references.md) has a sentence for each. This page names the tests that show each statement, found by the
number in the test's name, docstring or comments. A statement without a test has a reason; one that is *not built*
is held by nothing in this tree."""

Tests = Mapping[str, Sequence[str]]
"""The tests of each statement, as pytest names them."""


def shown_by(files: Mapping[str, str]) -> Tests:
    """The tests in `files` (path -> text), by the statements that they cite."""
    found: dict[str, list[str]] = {number: [] for number in TITLES}
    for path, text in sorted(files.items()):
        comments = comments_of(text)
        for test in _tests(ast.parse(text)):
            for number in numbers_of(test, comments):
                if number in found:
                    found[number].append(f"{path}::{test.name}")
    return found


def _tests(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node


def numbers_of(test: ast.FunctionDef, comments: Mapping[int, str]) -> Sequence[str]:
    """The statements that `test` cites, each once; `comments`: the file's comments by line."""
    lines = range(test.lineno, (test.end_lineno or test.lineno) + 1)
    said = [ast.get_docstring(test) or "", *(comments[line] for line in lines if line in comments)]
    prose = re.sub(r"\b[AMTCSW]\d+-[AMTCSW]?\d+\b", "", " ".join(said))
    named = [
        f"{letter.upper()}{number}"
        for letter, number in re.findall(r"_([amtcsw])(\d+)[a-z]?(?=_|$)", test.name)
    ]
    return list(dict.fromkeys([*named, *re.findall(r"\b[AMTCSW]\d+\b", prose)]))


def comments_of(text: str) -> Mapping[int, str]:
    """The comments of a file, by line."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}


def mistakes(tests: Tests) -> Iterator[str]:
    """Sentences about statements that have neither a test nor a reason, or both."""
    for number, title in TITLES.items():
        excused = number in OUT_OF_SCOPE or number in NOT_BUILT
        if not tests[number] and not excused:
            yield (
                f"{number} ({title}) has no test; write one that cites it, or give the reason in OUT_OF_SCOPE"
                " or NOT_BUILT"
            )
        if tests[number] and excused:
            yield f"{number} ({title}) is excused, but {tests[number][0]} cites it; take one of them away"


def page_text(tests: Tests) -> str:
    """The text of the page."""
    return "\n".join([_OPENING, *(line for letter in _LETTERS for line in _section(letter, tests))]) + "\n"


def _section(letter: str, tests: Tests) -> Iterator[str]:
    yield f"\n## {_LETTERS[letter]}\n"
    for number, title in TITLES.items():
        if number.startswith(letter):
            yield f"- **{number}** {title}"
            yield from (f"  - `{test}`" for test in tests[number])
            if number in OUT_OF_SCOPE:
                yield f"  - out of scope: {OUT_OF_SCOPE[number]}"
            if number in NOT_BUILT:
                yield f"  - not built: {NOT_BUILT[number]}"


def read_tests() -> Mapping[str, str]:
    """The text of the repository's tests, by path."""
    paths = (path for folder in _FOLDERS for path in (ROOT / folder).rglob("tests/test_*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def main() -> None:
    """Write the page; or print the mistakes and exit with 1."""
    tests = shown_by(read_tests())
    wrong = list(mistakes(tests))
    if wrong:
        sys.stderr.write("\n".join(wrong) + "\n")
        sys.exit(Exit.VIOLATION)
    PAGE.write_text(page_text(tests), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")


if __name__ == "__main__":
    main()
