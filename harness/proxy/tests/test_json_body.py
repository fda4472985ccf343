"""Bodies are read as Go reads them, and whatever the bytes, reading ends in a value or in a refusal."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from harness.proxy.json_body import INTEGER, REAL, STRING, Field, as_single, json_text, read_fields, read_json
from harness.proxy.refusal import Refusal
from harness.system.choices import Choices
from tools.cases import each

NAME = {"name": Field(kind=STRING, place="P.name"), "n": Field(kind=INTEGER, place="P.n")}


@each("seed", range(20))
def test_damaged_bytes_are_read_or_refused_and_never_anything_else(seed: int) -> None:
    choices = Choices(seed, "damage")
    whole = json.dumps({"name": 'a\u00fc\\"', "n": -12.5e3, "list": [1, [], {"x": None}], "t": True}).encode()
    for _ in range(200):
        body = bytearray(whole)
        for _ in range(choices.between(1, 4)):
            at = choices.index(len(body))
            match choices.index(3):
                case 0:
                    body[at] = choices.index(256)
                case 1:
                    del body[at:]
                case _:
                    body[at:at] = bytes([choices.index(256)])
            body = body or bytearray(b" ")
        with suppress(Refusal):
            read_fields(read_json(bytes(body)), NAME, whole="P")


def test_a_body_nested_beyond_reason_is_refused() -> None:
    with pytest.raises(Refusal, match="exceeded max depth"):
        read_json(b"[" * 500_000)


@each(
    ("text", "found"),
    [
        ('{"name":"a","NAME":"b"}', {"name": "b"}),
        ('{"name":null,"n":3}', {"n": 3}),
        ('{"name":"\\ud800x"}', {"name": "\ufffdx"}),
        ('{"n":-9223372036854775808}', {"n": -(2**63)}),
        ('{"other":{"name":1}}', {}),
        ("null", {}),
    ],
)
def test_fields_are_found_by_name_in_any_case_and_the_last_one_counts(
    text: str, found: dict[str, object]
) -> None:
    assert read_fields(read_json(text.encode()), NAME, whole="P") == found


def test_a_number_beyond_64_bits_is_refused() -> None:
    with pytest.raises(Refusal, match="cannot unmarshal number 9223372036854775808 into Go struct field P.n"):
        read_fields(read_json(b'{"n":9223372036854775808}'), NAME, whole="P")


@pytest.mark.parametrize(
    ("given", "shown"), [("0.1", 0.1), ("1", 1), ("0.333333333", 0.33333334), ("1e-3", 0.001)]
)
def test_a_number_in_single_precision_is_shown_in_its_shortest_form(given: str, shown: float) -> None:
    (number,) = read_fields(read_json(b"%s" % f'{{"r":{given}}}'.encode()), {"r": Field(kind=REAL, place="P.r")},
                            whole="P").values()  # fmt: skip

    assert as_single(number) == shown


def test_nothing_that_a_browser_could_take_for_markup_is_written() -> None:
    assert json_text({"a": "<b>&\u2028"}) == '{"a":"\\u003cb\\u003e\\u0026\\u2028"}'
