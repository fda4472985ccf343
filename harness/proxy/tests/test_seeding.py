"""Every draw follows from the seed, the link, the connection's number and the toxic's name, and from nothing else."""

from __future__ import annotations

from harness.proxy.proxy_parts import Dice
from harness.proxy.tests.conftest import Stand
from harness.proxy.toxics.stage import Stream

SEED, CONNECTIONS = 7, 12


def _predicted(toxicity: float, *, toxic: str = "it") -> list[int]:
    numbers = range(1, CONNECTIONS + 1)
    return [number for number in numbers if Dice(SEED).share("db", number, toxic) < toxicity]


def _limited(stand: Stand) -> list[int]:
    return sorted(event.connection for event in stand.log("limited"))


def test_equal_seeds_draw_alike_and_others_do_not() -> None:
    def shares(seed: int) -> list[float]:
        return [Dice(seed).share("db", number, "it") for number in range(20)]

    assert shares(7) == shares(7)
    assert shares(7) != shares(8)


def test_a_draw_depends_on_link_connection_and_toxic() -> None:
    dice = Dice(7)
    shares = {
        dice.share(link, number, toxic): None
        for link in ("a", "b")
        for number in (1, 2)
        for toxic in ("x", "y")
    }

    assert len(shares) == 8


def test_toxicity_acts_on_the_connections_that_the_seed_says(stand: Stand) -> None:
    stand.add("limit_data", toxicity=0.5, bytes=0)

    for number in range(1, CONNECTIONS + 1):
        client, server = stand.pair()
        server.sendall(b"!")
        assert stand.read(client, 1) == (b"" if number in _predicted(0.5) else b"!")

    assert 0 < len(_predicted(0.5)) < CONNECTIONS
    assert _limited(stand) == _predicted(0.5)


def test_every_decision_is_written_down_with_what_was_drawn(stand: Stand) -> None:
    stand.add("limit_data", toxicity=0.5, bytes=0)

    for _ in range(CONNECTIONS):
        stand.ends(Stream.DOWNSTREAM)

    decided = stand.log("decided")
    assert [event.connection for event in decided if event.numbers["outcome"] == "acts"] == _predicted(0.5)
    assert decided[0].numbers["drawn"] == f"{Dice(SEED).share('db', 1, 'it'):.6f}"


def test_another_toxic_does_not_roll_again(stand: Stand) -> None:
    """In Toxiproxy it does: half of the connections changed."""
    stand.add("limit_data", toxicity=0.5, bytes=0)
    pairs = [stand.ends(Stream.DOWNSTREAM) for _ in range(CONNECTIONS)]

    stand.add("noop", name="other")
    stand.add("latency", name="third", toxicity=0.5, latency=0)
    stand.remove("other")
    stand.update("third", latency=0)
    for server, client in pairs:
        server.sendall(b"!")
        stand.read(client, 1)

    assert _limited(stand) == _predicted(0.5)


def test_toxicity_changed_compares_the_same_draw(stand: Stand) -> None:
    stand.add("limit_data", toxicity=0.2, bytes=0)
    pairs = [stand.ends(Stream.DOWNSTREAM) for _ in range(CONNECTIONS)]

    stand.update(toxicity=0.9)
    stand.update(toxicity=0.6)
    for server, client in pairs:
        server.sendall(b"!")
        stand.read(client, 1)

    assert _limited(stand) == _predicted(0.6)


def test_a_new_seed_counts_connections_from_one_and_leaves_live_ones_as_they_are(stand: Stand) -> None:
    """A world's proxy serves one run after the other, each with a seed of its own."""
    stand.ends(Stream.DOWNSTREAM)
    before = [stand.ends(Stream.DOWNSTREAM) for _ in range(CONNECTIONS)]

    def reseed() -> None:
        stand.parts.reseed(SEED)
        stand.link.count_anew()

    stand.call(reseed)
    stand.add("limit_data", toxicity=0.5, bytes=0)
    for _ in range(CONNECTIONS):
        server, client = stand.ends(Stream.DOWNSTREAM)
        server.sendall(b"!")
        stand.read(client, 1)
    for server, client in before:
        server.sendall(b"!")
        stand.read(client, 1)

    limited = _limited(stand)
    first = 1 + CONNECTIONS
    assert [number - first for number in limited if number > first] == _predicted(0.5)
    assert [number for number in limited if number <= first] == [
        number for number in range(2, first + 1) if Dice(SEED).share("db", number, "it") < 0.5
    ]


def test_toxicity_of_zero_acts_on_nobody(stand: Stand) -> None:
    stand.add("limit_data", toxicity=0.0, bytes=0)
    server, client = stand.ends(Stream.DOWNSTREAM)

    server.sendall(b"!")

    assert stand.read(client, 1) == b"!"
