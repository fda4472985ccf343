"""The control interface of toxics: what is refused, and how a toxic is shown; the same of both."""

from __future__ import annotations

from typing import Any

import pytest

from harness.proxy.conformance.tests.subject import Subject, assert_refused
from tools.cases import each

NOWHERE = ("127.0.0.1", 1)

BAD_VALUES = [
    ("latency", "latency", '"x"'),
    ("latency", "jitter", "1.5"),
    ("latency", "latency", "1e3"),
    ("bandwidth", "rate", "true"),
    ("slow_close", "delay", "[]"),
    ("timeout", "timeout", "{}"),
    ("reset_peer", "timeout", '"1"'),
    ("slicer", "delay", '"1"'),
    ("limit_data", "bytes", "9223372036854775808"),
]
BAD_TOXICS = [
    "{}",
    "null",
    '{"type":"nope"}',
    '{"type":"noop","stream":"x"}',
    '{"type":"noop","stream":""}',
    '{"type":"noop","toxicity":"x"}',
    '{"type":"noop","toxicity":1e999}',
    '{"type":"noop","attributes":5}',
]


def test_a_toxic_has_defaults(proxy: Subject) -> None:
    link = proxy.link(NOWHERE)
    reply = proxy.ask("POST", f"{link.path}/toxics", {"type": "latency"})

    assert reply.status == 200
    assert reply.json == {
        "attributes": {"latency": 0, "jitter": 0},
        "name": "latency_downstream",
        "type": "latency",
        "stream": "downstream",
        "toxicity": 1,
    }


def test_keys_match_in_any_case_streams_are_echoed_and_what_follows_the_json_is_ignored(
    proxy: Subject,
) -> None:
    link = proxy.link(NOWHERE)
    body = (
        '{"TYPE":"latency","Stream":"UPSTREAM","Attributes":{"LATENCY":7,"zzz":1},"toxicity":null} trailing'
    )

    assert proxy.ask("POST", f"{link.path}/toxics", body).json == {
        "attributes": {"latency": 7, "jitter": 0},
        "name": "latency_UPSTREAM",
        "type": "latency",
        "stream": "UPSTREAM",
        "toxicity": 1,
    }


@pytest.mark.parametrize("given", [0.5, 0.33333333, 5, -1, 0])
def test_toxicity_is_shown_as_it_was_given(proxy: Subject, given: float) -> None:
    """Toxiproxy keeps it in single precision."""
    reply = proxy.ask("POST", f"{proxy.link(NOWHERE).path}/toxics", {"type": "noop", "toxicity": given})

    assert reply.json["toxicity"] == pytest.approx(given)


@pytest.mark.parametrize(("type_", "attribute", "value"), BAD_VALUES)
def test_an_attribute_of_another_type_is_refused(
    proxy: Subject, type_: str, attribute: str, value: str
) -> None:
    link = proxy.link(NOWHERE)
    body = f'{{"type":"{type_}","attributes":{{"{attribute}":{value}}}}}'

    assert_refused(proxy.ask("POST", f"{link.path}/toxics", body), 400)


@pytest.mark.parametrize("body", BAD_TOXICS)
def test_a_bad_toxic_is_refused_and_not_there(proxy: Subject, body: str) -> None:
    link = proxy.link(NOWHERE)

    assert_refused(proxy.ask("POST", f"{link.path}/toxics", body), 400)
    assert link.shown["toxics"] == []


def test_a_twin_is_refused(proxy: Subject) -> None:
    link = proxy.link(NOWHERE)
    link.poison("latency")
    reply = proxy.ask("POST", f"{link.path}/toxics", '{"type":"latency","attributes":{"latency":"x"}}')

    assert_refused(reply, 409)


def test_toxics_are_listed_upstream_first_each_in_order_of_creation(proxy: Subject) -> None:
    link = proxy.link(NOWHERE)
    for name, stream in [("d1", "downstream"), ("u1", "upstream"), ("d2", "downstream"), ("u2", "upstream")]:
        link.poison("noop", stream=stream, name=name)

    names = [toxic["name"] for toxic in proxy.ask("GET", f"{link.path}/toxics").json]

    assert names == ["u1", "u2", "d1", "d2"]
    assert [toxic["name"] for toxic in link.shown["toxics"]] == names


@pytest.mark.parametrize("method", ["PATCH", "POST"])
def test_a_change_of_a_toxic_merges_and_ignores_name_type_and_stream(proxy: Subject, method: str) -> None:
    link = proxy.link(NOWHERE)
    link.poison("latency", {"latency": 5, "jitter": 2}, name="t")
    body = {"attributes": {"jitter": 3}, "name": "x", "type": "noop", "stream": "upstream", "toxicity": 0.5}

    reply = proxy.ask(method, f"{link.path}/toxics/t", body)

    assert reply.json == {
        "attributes": {"latency": 5, "jitter": 3},
        "name": "t",
        "type": "latency",
        "stream": "downstream",
        "toxicity": 0.5,
    }
    assert proxy.ask("GET", f"{link.path}/toxics/t").text == reply.text


def test_a_toxic_is_deleted_once(proxy: Subject) -> None:
    link = proxy.link(NOWHERE)
    name = link.poison("noop")

    assert [link.cure(name).status, link.cure(name).status] == [204, 404]


def toxic_types() -> list[tuple[str, dict[str, Any]]]:
    """Every toxic of Toxiproxy with attributes that can be."""
    return [
        ("latency", {"latency": 1, "jitter": 0}),
        ("bandwidth", {"rate": 1}),
        ("slow_close", {"delay": 1}),
        ("timeout", {"timeout": 1}),
        ("reset_peer", {"timeout": 1}),
        ("slicer", {"average_size": 2, "size_variation": 1, "delay": 1}),
        ("limit_data", {"bytes": 1}),
        ("noop", {}),
    ]


@each(("type_", "attributes"), toxic_types())
@each("stream", ["upstream", "downstream"])
def test_every_toxic_goes_on_either_stream(
    proxy: Subject, type_: str, attributes: dict[str, Any], stream: str
) -> None:
    link = proxy.link(NOWHERE)
    link.poison(type_, attributes, stream=stream)

    assert link.shown["toxics"] == [
        {
            "attributes": attributes,
            "name": f"{type_}_{stream}",
            "type": type_,
            "stream": stream,
            "toxicity": 1,
        }
    ]
