"""The JSON bodies of the control interface, read into checked fields and written, and its refusals.

Answers to Toxiproxy's `ApiError`. Invariant: a request that was refused has changed nothing.

Toxiproxy's clients were written against Go, so a key matches in any case, `null` leaves a field unset, and bytes after
the first value are ignored. Invariant: whatever the bytes, reading ends in a value or in a `Refusal`.
"""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Callable, Mapping
from http import HTTPStatus

from harness.system.json_types import Json


class Refusal(Exception):
    """A request that cannot be done; `words` is the error text of the answer."""

    def __init__(self, words: str, status: HTTPStatus) -> None:
        super().__init__(words)
        self.words = words
        self.status = status


def bad_body(why: str) -> Refusal:
    """The body cannot be parsed, or asks for something impossible."""
    return Refusal(f"bad request body: {why}", HTTPStatus.BAD_REQUEST)


def missing_field(name: str) -> Refusal:
    """A required field is missing."""
    return Refusal(f"missing required field: {name}", HTTPStatus.BAD_REQUEST)


def cannot_listen(address: str, error: OSError) -> Refusal:
    """The operating system refused the address."""
    known = error.errno is not None and error.errno in errno.errorcode
    why = os.strerror(error.errno or 0).lower() if known else str(error)
    return Refusal(f"listen tcp {address}: bind: {why}", HTTPStatus.INTERNAL_SERVER_ERROR)


INT64_LOW, INT64_HIGH = -(2**63), 2**63 - 1


def read_json(body: bytes) -> object:
    """The first value of the body. Objects have keys in lower case, without those that are `null`."""
    try:
        return _DECODER.raw_decode(body.decode(errors="replace").lstrip(" \t\r\n"))[0]
    except (ValueError, RecursionError) as error:
        raise bad_body(str(error)) from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=lambda pairs: {key.lower(): value for key, value in pairs if value is not None},
    parse_constant=_refuse_constant,
)


def string(value: object) -> str | None:
    """The text, with U+FFFD for each lone surrogate, which no answer could be written with."""
    if not isinstance(value, str):
        return None
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def boolean(value: object) -> bool | None:
    """None for any other type, as the other three."""
    return value if isinstance(value, bool) else None


def integer(value: object) -> int | None:
    """A whole number of 64 bits."""
    if isinstance(value, int) and not isinstance(value, bool) and INT64_LOW <= value <= INT64_HIGH:
        return value
    return None


def number(value: object) -> float | None:
    """A whole number of 64 bits, or a finite fraction."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return integer(value)


def read_fields(value: object, fields: Mapping[str, Callable[[object], object]]) -> Json:
    """The `fields` that `value` sets, each checked against its type; other keys are ignored. Raises `Refusal`."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise bad_body("it is not a JSON object")
    found = {name: take(value[name]) for name, take in fields.items() if name in value}
    for name, taken in found.items():
        if taken is None:
            raise bad_body(f"`{name}` is not of type {fields[name].__name__}")
    return found


def json_text(value: object) -> str:
    """ASCII without blanks."""
    return json.dumps(value, separators=(",", ":"))
