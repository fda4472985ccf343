"""The job around the tasks: triggers checkpoints, records which are complete, and assigns their state at a restore.

Answers to `org.apache.flink.runtime.checkpoint`. Invariant: the job reaches its tasks only by messages, each of which
may be lost, late or repeated.
"""

from __future__ import annotations

__all__: list[str] = []
