"""Keys match in any case, and whatever the bytes, reading ends in a value or in a refusal."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from harness.proxy.json_body import Refusal, integer, number, read_fields, read_json, string
from harness.system.choices import Choices
from tools.cases import each

NAME = {"name": string, "n": integer}


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
            read_fields(read_json(bytes(body)), NAME)


def test_a_body_nested_beyond_reason_is_refused() -> None:
    with pytest.raises(Refusal, match="recursion"):
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
    assert read_fields(read_json(text.encode()), NAME) == found


@pytest.mark.parametrize("given", ["9223372036854775808", "9" * 5_000, "1e3", "true"])
def test_what_is_no_whole_number_of_64_bits_is_refused(given: str) -> None:
    with pytest.raises(Refusal, match="bad request body"):
        read_fields(read_json(f'{{"n":{given}}}'.encode()), NAME)


@pytest.mark.parametrize("given", ["1e999", "NaN", "-Infinity", '"1"', "false"])
def test_what_is_no_finite_number_is_refused(given: str) -> None:
    with pytest.raises(Refusal, match="bad request body"):
        read_fields(read_json(f'{{"r":{given}}}'.encode()), {"r": number})
