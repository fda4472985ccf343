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


def cannot_listen(address: str, error: OSError) -> Refusal:
    """The operating system refused the address."""
    known = error.errno is not None and error.errno in errno.errorcode
    why = os.strerror(error.errno or 0).lower() if known else str(error)
    return Refusal(f"listen tcp {address}: bind: {why}", HTTPStatus.INTERNAL_SERVER_ERROR)
