"""The operator protocol, spoken for the operators of this project on standard input and output.

Answers to `docs/reference/sut-protocol.md`. The operator runs as it is, on a virtual loop; what a harness normally is
to it, source, service, clock, coordinator and sink, is here one conversation.
"""

from __future__ import annotations

from harness.sut.serve.conversation import converse
from harness.sut.serve.systems import SYSTEMS

__all__ = ["SYSTEMS", "converse"]
