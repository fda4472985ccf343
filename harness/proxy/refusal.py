"""Refusals of the control interface: a status and the very words that Toxiproxy's clients know.

Answers to Toxiproxy's `ApiError`. Invariant: what was refused has changed nothing.
"""

from __future__ import annotations

import errno
import os
from http import HTTPStatus

__all__ = [
    "Refusal",
    "bad_body",
    "cannot_listen",
    "invalid_stream",
    "invalid_toxic_type",
    "link_exists",
    "link_not_found",
    "missing_field",
    "toxic_exists",
    "toxic_not_found",
]


class Refusal(Exception):
    """What was asked cannot be done; `words` go into the answer's body."""

    def __init__(self, words: str, status: HTTPStatus) -> None:
        super().__init__(words)
        self.words = words
        self.status = status


def bad_body(why: str) -> Refusal:
    """A body that cannot be read, or says what cannot be."""
    return Refusal(f"bad request body: {why}", HTTPStatus.BAD_REQUEST)


def missing_field(name: str) -> Refusal:
    """A field that has no default."""
    return Refusal(f"missing required field: {name}", HTTPStatus.BAD_REQUEST)


def link_not_found() -> Refusal:
    """No link of that name."""
    return Refusal("proxy not found", HTTPStatus.NOT_FOUND)


def link_exists() -> Refusal:
    """A link of that name is there already."""
    return Refusal("proxy already exists", HTTPStatus.CONFLICT)


def toxic_not_found() -> Refusal:
    """No toxic of that name on that link."""
    return Refusal("toxic not found", HTTPStatus.NOT_FOUND)


def toxic_exists() -> Refusal:
    """A toxic of that name is on that link already."""
    return Refusal("toxic already exists", HTTPStatus.CONFLICT)


def invalid_stream() -> Refusal:
    """Neither of the two directions."""
    return Refusal("stream was invalid, can be either upstream or downstream", HTTPStatus.BAD_REQUEST)


def invalid_toxic_type() -> Refusal:
    """No toxic is of that type."""
    return Refusal("invalid toxic type", HTTPStatus.BAD_REQUEST)


def cannot_listen(address: str, error: OSError) -> Refusal:
    """The operating system refused the address."""
    known = error.errno is not None and error.errno in errno.errorcode
    why = os.strerror(error.errno or 0).lower() if known else str(error)
    return Refusal(f"listen tcp {address}: bind: {why}", HTTPStatus.INTERNAL_SERVER_ERROR)
