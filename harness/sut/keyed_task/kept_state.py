"""Kept state: what a snapshot keeps of the operator in front of the lookups, as text that any sink can store.

Answers to an `OperatorSubtaskState` on its way through a checkpoint storage. Invariant: msgpack of known types and no
pickle; a text that was altered on its way is refused, for it carries the checksum of what it holds.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from hashlib import sha256

import msgspec

from reference_impl.state.handles import KeyedStateHandle
from reference_impl.state.internal_timers import TimersHandle

__all__ = ["KeptState", "KeptStateAltered", "decoded", "encoded"]

_CHECKSUM_LENGTH = 16


class KeptStateAltered(Exception):
    """What is read back is not what was stored."""


class KeptState(msgspec.Struct, frozen=True, kw_only=True):
    """None where there is nothing (C10)."""

    keyed: KeyedStateHandle | None
    timers: TimersHandle | None


def encoded(state: KeptState) -> str:
    """`state` as text."""
    body = msgspec.msgpack.encode(state)
    return f"{_checksum(body)}:{b64encode(body).decode('ascii')}"


def decoded(text: str) -> KeptState:
    """What `encoded` was given. Raises `KeptStateAltered`."""
    checksum, _, rest = text.partition(":")
    try:
        body = b64decode(rest, validate=True)
    except ValueError as error:
        message = f"the state of the keyed operator is torn: its text is no base64 ({error})"
        raise KeptStateAltered(message) from error
    if _checksum(body) != checksum:
        message = f"the state of the keyed operator is torn or altered: its checksum is not {checksum}"
        raise KeptStateAltered(message)
    return msgspec.msgpack.decode(body, type=KeptState)


def _checksum(body: bytes) -> str:
    return sha256(body).hexdigest()[:_CHECKSUM_LENGTH]
