"""Refusals of the control interface: the HTTP status that Toxiproxy's clients expect, and a text of our own.

Answers to Toxiproxy's `ApiError`. Invariant: a request that was refused has changed nothing.
"""

from __future__ import annotations

import errno
import os
from http import HTTPStatus


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


def link_not_found() -> Refusal:
    """There is no link of that name."""
    return Refusal("proxy not found", HTTPStatus.NOT_FOUND)


def link_exists() -> Refusal:
    """There already is a link of that name."""
    return Refusal("proxy already exists", HTTPStatus.CONFLICT)


def toxic_not_found() -> Refusal:
    """The link has no toxic of that name."""
    return Refusal("toxic not found", HTTPStatus.NOT_FOUND)


def toxic_exists() -> Refusal:
    """The link already has a toxic of that name."""
    return Refusal("toxic already exists", HTTPStatus.CONFLICT)


def invalid_stream() -> Refusal:
    """The stream is neither upstream nor downstream."""
    return Refusal("stream was invalid, can be either upstream or downstream", HTTPStatus.BAD_REQUEST)


def invalid_toxic_type() -> Refusal:
    """There is no toxic of that type."""
    return Refusal("invalid toxic type", HTTPStatus.BAD_REQUEST)


def cannot_listen(address: str, error: OSError) -> Refusal:
    """The operating system refused the address."""
    known = error.errno is not None and error.errno in errno.errorcode
    why = os.strerror(error.errno or 0).lower() if known else str(error)
    return Refusal(f"listen tcp {address}: bind: {why}", HTTPStatus.INTERNAL_SERVER_ERROR)
