"""The control interface of toxics: what is refused, in which words, and how a toxic is shown; the same of both."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.proxy.conformance.tests.subject import Subject
from tools.cases import each

NOWHERE = ("127.0.0.1", 1)

BAD_VALUES = [
    ("latency", "latency", '"x"', "string", "LatencyToxic.attributes.latency of type int64"),
    ("latency", "jitter", "1.5", "number 1.5", "LatencyToxic.attributes.jitter of type int64"),
    ("latency", "latency", "1e3", "number 1e3", "LatencyToxic.attributes.latency of type int64"),
    ("bandwidth", "rate", "true", "bool", "BandwidthToxic.attributes.rate of type int64"),
    ("slow_close", "delay", "[]", "array", "SlowCloseToxic.attributes.delay of type int64"),
    ("timeout", "timeout", "{}", "object", "TimeoutToxic.attributes.timeout of type int64"),
    ("reset_peer", "timeout", '"1"', "string", "ResetToxic.attributes.timeout of type int64"),
    ("slicer", "delay", '"1"', "string", "SlicerToxic.attributes.delay of type int"),
    ("limit_data", "bytes", '"1"', "string", "LimitDataToxic.attributes.bytes of type int64"),
]


def of_type(said: str, place: str) -> str:
    """Go's words for a value of another type."""
    return f"bad request body: json: cannot unmarshal {said} into Go struct field {place}"


BAD_TOXICS = [
    ("{}", "invalid toxic type"),
    ("null", "invalid toxic type"),
    ('{"type":"nope"}', "invalid toxic type"),
    ('{"type":"noop","stream":"x"}', "stream was invalid, can be either upstream or downstream"),
    ('{"type":"noop","stream":""}', "stream was invalid, can be either upstream or downstream"),
    ('{"type":"noop","toxicity":"x"}', of_type("string", "ToxicWrapper.toxicity of type float32")),
    ('{"type":"noop","toxicity":1e39}', of_type("number 1e39", "ToxicWrapper.toxicity of type float32")),
    ('{"type":"noop","attributes":5}', of_type("number", "ToxicWrapper.attributes of type toxics.NoopToxic")),
]


def refusal(words: str, status: int) -> str:
    """The body of a refusal."""
    return json.dumps({"error": words, "status": status}, separators=(",", ":"), ensure_ascii=False) + "\n"


def test_a_toxic_has_defaults(proxy: Subject) -> None:
    link = proxy.link(NOWHERE)
    reply = proxy.ask("POST", f"{link.path}/toxics", {"type": "latency"})

    shown = '{"attributes":{"latency":0,"jitter":0},"name":"latency_downstream","type":"latency",'
    assert (reply.status, reply.text) == (200, shown + '"stream":"downstream","toxicity":1}')


def test_keys_match_in_any_case_streams_are_echoed_and_what_follows_the_json_is_ignored(
    proxy: Subject,
) -> None:
    link = proxy.link(NOWHERE)
    body = (
        '{"TYPE":"latency","Stream":"UPSTREAM","Attributes":{"LATENCY":7,"zzz":1},"toxicity":null} trailing'
    )

    assert proxy.ask("POST", f"{link.path}/toxics", body).text == (
        '{"attributes":{"latency":7,"jitter":0},"name":"latency_UPSTREAM","type":"latency",'
        '"stream":"UPSTREAM","toxicity":1}'
    )


@pytest.mark.parametrize(
    ("given", "shown"), [(0.5, "0.5"), (0.33333333, "0.33333334"), (5, "5"), (-1, "-1"), (0, "0")]
)
def test_toxicity_is_a_number_in_single_precision(proxy: Subject, given: float, shown: str) -> None:
    reply = proxy.ask("POST", f"{proxy.link(NOWHERE).path}/toxics", {"type": "noop", "toxicity": given})

    assert reply.text.endswith(f'"toxicity":{shown}}}')


@each(("type_", "attribute", "value", "said", "place"), BAD_VALUES)
def test_an_attribute_of_another_type_is_refused_in_gos_words(
    proxy: Subject, type_: str, attribute: str, value: str, said: str, place: str
) -> None:
    link = proxy.link(NOWHERE)
    body = f'{{"type":"{type_}","attributes":{{"{attribute}":{value}}}}}'
    reply = proxy.ask("POST", f"{link.path}/toxics", body)

    assert (reply.status, reply.text) == (400, refusal(of_type(said, place), 400))


@each(("body", "words"), BAD_TOXICS)
def test_a_bad_toxic_is_refused_and_not_there(proxy: Subject, body: str, words: str) -> None:
    link = proxy.link(NOWHERE)
    reply = proxy.ask("POST", f"{link.path}/toxics", body)

    assert (reply.status, reply.text) == (400, refusal(words, 400))
    assert link.shown["toxics"] == []


def test_a_twin_is_refused(proxy: Subject) -> None:
    link = proxy.link(NOWHERE)
    link.poison("latency")
    reply = proxy.ask("POST", f"{link.path}/toxics", '{"type":"latency","attributes":{"latency":"x"}}')

    assert (reply.status, reply.text) == (409, refusal("toxic already exists", 409))


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

    assert reply.text == (
        '{"attributes":{"latency":5,"jitter":3},"name":"t","type":"latency","stream":"downstream","toxicity":0.5}'
    )
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
