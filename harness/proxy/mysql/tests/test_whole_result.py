"""What is read in a glance is what reading packet by packet finds, for whatever bytes a server may send."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.proxy.mysql.commands import QUERY
from harness.proxy.mysql.dialogue import DEPRECATE_EOF, Dialogue
from harness.proxy.mysql.frames import framed, is_whole_result

COLUMN = b"\x03def\x04shop"
OLD_EOF, MORE, CURSOR = b"\xfe\0\0\x02\0", b"\xfe\0\0\x0a\0", b"\xfe\0\0\x42\0"
NEW_END, NEW_MORE = b"\xfe\0\0\x02\0\0\0", b"\xfe\0\0\x0a\0\0\0"
PAYLOADS = st.sampled_from(
    [
        b"\x01",
        b"\x02",
        b"\0\0\0\x02\0\0\0",
        COLUMN,
        b"\x03row",
        b"\xfb",
        b"\xfbinfile",
        b"\xfe" + bytes(20),
        b"\xff\x28\x04#HY000no",
        b"",
        OLD_EOF,
        MORE,
        CURSOR,
        NEW_END,
        NEW_MORE,
    ]
)


def stream(payloads: list[bytes]) -> bytes:
    return b"".join(framed(payload, sequence=number + 1) for number, payload in enumerate(payloads))


def asked(*, eof_is_old: bool) -> Dialogue:
    """A conversation past its login, in which one statement waits for its reply."""
    dialogue = Dialogue()
    dialogue.replies.track(framed(b"\x0a8.4.0\0" + bytes(60), sequence=0))
    dialogue.session.abilities = 0 if eof_is_old else DEPRECATE_EOF
    dialogue.replies.track(framed(b"\0\0\0\x02\0\0\0", sequence=2))
    dialogue.requests.track(framed(b"\x03SELECT 1", sequence=0))
    assert [each.command for each in dialogue.session.open] == [QUERY]
    return dialogue


def seen(dialogue: Dialogue) -> tuple[object, ...]:
    session = dialogue.session
    return (len(session.open), session.why_lost, session.infile is None, dialogue.replies.at_boundary)


def by_reading(chunk: bytes, *, eof_is_old: bool) -> Dialogue:
    """The same, but for the glance."""
    dialogue = asked(eof_is_old=eof_is_old)
    dialogue.replies._scan(chunk, None)
    return dialogue


@given(payloads=st.lists(PAYLOADS, max_size=9), eof_is_old=st.booleans())
def test_a_glance_finds_what_reading_finds(payloads: list[bytes], *, eof_is_old: bool) -> None:
    whole = asked(eof_is_old=eof_is_old)

    whole.replies.track(stream(payloads))

    assert seen(whole) == seen(by_reading(stream(payloads), eof_is_old=eof_is_old))


@given(
    rows=st.lists(st.just(b"\x03row"), max_size=4),
    cut=st.integers(0, 60),
    more=st.binary(max_size=3),
    eof_is_old=st.booleans(),
)
def test_a_result_that_is_cut_or_followed_by_more_is_no_whole_one(
    rows: list[bytes], cut: int, more: bytes, *, eof_is_old: bool
) -> None:
    middle, end = ([OLD_EOF], OLD_EOF) if eof_is_old else ([], NEW_END)
    result = stream([b"\x01", COLUMN, *middle, *rows, end])

    assert is_whole_result(result, eof_is_old=eof_is_old)
    assert is_whole_result(result + more, eof_is_old=eof_is_old) == (not more)
    if cut < len(result):
        assert not is_whole_result(result[:cut], eof_is_old=eof_is_old)


@given(noise=st.binary(max_size=40), eof_is_old=st.booleans())
def test_no_bytes_break_the_glance(noise: bytes, *, eof_is_old: bool) -> None:
    for chunk in (noise, b"\x01\0\0\x01\x01" + noise):
        whole = asked(eof_is_old=eof_is_old)
        whole.replies.track(chunk)

        assert seen(whole) == seen(by_reading(chunk, eof_is_old=eof_is_old))


def test_a_statement_asked_before_the_last_was_answered_is_read_as_well() -> None:
    dialogue = asked(eof_is_old=True)

    dialogue.requests.track(framed(b"\x03SELECT 2", sequence=0))

    assert [each.text for each in dialogue.session.open] == [b"SELECT 1", b"SELECT 2"]


def test_a_statement_read_in_a_glance_keeps_its_text() -> None:
    (exchange,) = asked(eof_is_old=True).session.open

    assert (exchange.command, exchange.text, exchange.requests) == (QUERY, b"SELECT 1", 1)
