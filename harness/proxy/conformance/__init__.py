"""The conformance suite for a proxy with Toxiproxy's control API: it runs against ours and against Toxiproxy.

Answers to Toxiproxy's own tests and to anyio's `backend_params`: one body of tests, two subjects. Invariant: every
difference between the two is declared in `differences.py` and shown by a test on both.
"""

from __future__ import annotations

from harness.proxy.conformance.differences import DIFFERENCES, Difference
from harness.proxy.conformance.subject import Reply, Subject, own_proxy, toxiproxy

__all__ = ["DIFFERENCES", "Difference", "Reply", "Subject", "own_proxy", "toxiproxy"]
