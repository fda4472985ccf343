"""Rules: attributes that make no sense are refused with a sentence, before anything acts."""

from __future__ import annotations

import pytest

from harness.proxy.mysql.commands import QUERY, CommandExchange
from harness.proxy.mysql.rules import ATTRIBUTES, refuse, rule_of


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"on": "commits"}, "`on` must be one of any, commit,"),
        ({"do": "lose"}, "`do` must be one of drop, hold, delay, reset, close, error, note, not 'lose'"),
        ({"per": "link"}, "`per` must be one of proxy, connection"),
        ({"then": "rst"}, "`then` must be one of none, reset, close"),
        ({"nth": 0}, "`nth` must be at least 1, not 0"),
        ({"times": -1}, "`times` must be at least 0"),
        ({"byte": -2}, "`byte` must be at least -1"),
        ({"do": "error"}, "`code` goes with `do: error`"),
        ({"code": 1205}, "`code` goes with `do: error`"),
        ({"do": "error", "code": 1062}, "`code` must be one of 1040, 1053, 1205, 1213, 1290, not 1062"),
        ({"do": "error", "code": 1205, "byte": 3}, "leave `byte` out"),
        ({"do": "delay"}, "`ms` goes with `do: delay`"),
        ({"ms": 5}, "`ms` goes with `do: delay`"),
        ({"do": "reset", "then": "close"}, "leave `then` out"),
        ({"do": "note", "then": "close"}, "leave `then` out"),
        ({"do": "note", "packet": 2}, "leave `packet` and `byte` out"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(given: dict[str, int | str], said: str) -> None:
    assert said in refuse({**ATTRIBUTES, **given})


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"do": "error", "code": 1213, "then": "reset"},
        {"do": "delay", "ms": 1, "packet": 3, "byte": 2},
        {"do": "hold", "times": 0, "per": "connection", "nth": 7},
        {"do": "close", "byte": 0},
    ],
)
def test_what_makes_sense_is_not_refused(given: dict[str, int | str]) -> None:
    assert refuse({**ATTRIBUTES, **given}) == ""


def test_statements_are_compared_without_case_and_width_of_blanks() -> None:
    rule = rule_of({**ATTRIBUTES, "statement": "INSERT  INTO `Sink`"})

    assert rule.counts(CommandExchange(command=QUERY, text=b"insert into\n`sink` VALUES (1)"))
    assert not rule.counts(CommandExchange(command=QUERY, text=b"insert into other"))


def test_a_rule_acts_so_often_from_the_first_on() -> None:
    third = rule_of({**ATTRIBUTES, "nth": 3})
    from_third_on = rule_of({**ATTRIBUTES, "nth": 3, "times": 0})

    assert [match for match in range(1, 8) if third.acts_on(range(match, match + 1))] == [3]
    assert [match for match in range(1, 8) if from_third_on.acts_on(range(match, match + 1))] == [
        3,
        4,
        5,
        6,
        7,
    ]
