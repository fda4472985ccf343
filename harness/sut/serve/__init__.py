"""Serves this project's operators over the operator protocol, on standard input and output.

The protocol: `docs/reference/sut-protocol.md`. The operator runs unchanged on a virtual loop; the conversation
replaces its source, external service, clock, checkpoint coordinator and sink.
"""

from __future__ import annotations

from harness.sut.serve.conversation import converse
from harness.sut.serve.systems import SYSTEMS

__all__ = ["SYSTEMS", "converse"]
