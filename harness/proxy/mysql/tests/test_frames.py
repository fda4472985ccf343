"""Packets are found in a stream however its bytes come in pieces."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from harness.proxy.mysql.frames import LONGEST_FRAME, FrameTracker, Packet, framed


class Listing:
    """A reader that writes down what it is asked."""

    def __init__(self, reach: int = 8) -> None:
        self.reach = reach
        self.seen: list[tuple[int, int, bytes]] = []

    def quick(self, chunk: bytes) -> bool:
        return False

    def read(self, length: int, sequence: int, buffer: bytes, at: int) -> bool:
        self.seen.append((length, sequence, buffer[at : at + min(length, self.reach)]))
        return buffer[at : at + 4] != b"lost"

    def plausible(self, length: int, sequence: int) -> bool:
        return True

    def packet(self, sequence: int) -> Packet:
        return Packet(sequence=sequence, message=None, number=len(self.seen), last=False)


def long_packet(payload: bytes) -> bytes:
    """A payload as the protocol sends it, however long."""
    frames, sequence = b"", 0
    while len(payload) >= LONGEST_FRAME:
        frames += LONGEST_FRAME.to_bytes(3, "little") + bytes([sequence]) + payload[:LONGEST_FRAME]
        payload, sequence = payload[LONGEST_FRAME:], sequence + 1
    return frames + framed(payload, sequence=sequence)


def pieces(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [stream[low:high] for low, high in pairwise(places) if high > low]


PAYLOADS = st.lists(st.binary(max_size=40), max_size=12)
CUTS = st.lists(st.integers(0, 1000), max_size=30)


@given(payloads=PAYLOADS, cuts=CUTS)
def test_any_splitting_gives_the_same_packets(payloads: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(framed(payload, sequence=n) for n, payload in enumerate(payloads))
    tracked, parted = Listing(), Listing()
    tracking, parting = FrameTracker(tracked), FrameTracker(parted)

    parts = []
    for piece in pieces(stream, cuts):
        tracking.track(piece)
        parts += parting.parts(piece)

    expected = [(len(payload), n, payload[:8]) for n, payload in enumerate(payloads)]
    assert tracked.seen == parted.seen == expected
    assert b"".join(part.data for part in parts) == stream
    assert [part.packet.number for part in parts if part.packet and part.starts] == list(
        range(1, len(payloads) + 1)
    )
    assert sum(part.ends for part in parts) == len(payloads)
    assert tracking.at_boundary
    assert parting.at_boundary


@given(payloads=PAYLOADS, cuts=CUTS, switches=st.lists(st.booleans(), min_size=40, max_size=40))
def test_nothing_is_sent_twice_or_lost_when_tracking_and_parting_take_turns(
    payloads: list[bytes], cuts: list[int], switches: list[bool]
) -> None:
    stream = b"".join(framed(payload, sequence=n) for n, payload in enumerate(payloads))
    listing = Listing()
    tracker, sent = FrameTracker(listing), b""

    for piece, parting in zip(pieces(stream, cuts), switches, strict=False):
        if parting:
            sent += b"".join(part.data for part in tracker.parts(piece))
        else:
            sent += tracker.release() + piece
            tracker.track(piece)

    assert sent + tracker.release() == stream
    assert listing.seen == [(len(payload), n, payload[:8]) for n, payload in enumerate(payloads)]


def test_a_packet_whose_beginning_went_by_unseen_does_not_start_again() -> None:
    tracker = FrameTracker(Listing())

    tracker.track(b"\x06\x00")
    (part,) = tracker.parts(b"\x00\x00abcdef")

    assert part.data == b"\x00\x00abcdef"
    assert not part.starts
    assert part.ends


def test_sixteen_megabytes_with_their_empty_follower_are_one_packet() -> None:
    listing = Listing()
    tracker = FrameTracker(listing)
    stream = long_packet(bytes(LONGEST_FRAME)) + framed(b"next", sequence=2)

    parts = [
        part for at in range(0, len(stream), 1 << 20) for part in tracker.parts(stream[at : at + (1 << 20)])
    ]

    assert [length for length, _, _ in listing.seen] == [LONGEST_FRAME, 4]
    ends = [part.packet.number for part in parts if part.packet and part.ends]
    assert ends == [1, 2]


def test_a_stream_that_is_not_understood_goes_by_whole() -> None:
    tracker = FrameTracker(Listing())
    stream = framed(b"fine", sequence=0) + framed(b"lost", sequence=0) + b"\xff\xff"

    parts = [part for byte in stream for part in tracker.parts(bytes([byte]))] + tracker.parts(b"more")

    assert tracker.lost
    assert b"".join(part.data for part in parts) == stream + b"more"
    assert all(part.packet is None for part in parts if b"lost" in part.data or part.data == b"more")
