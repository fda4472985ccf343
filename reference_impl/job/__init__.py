"""The job around the tasks: who triggers checkpoints, knows which are complete, and hands out what was in them.

Answers to `org.apache.flink.runtime.checkpoint`. Invariant: nothing here touches a task but by a message, and any
message may be lost, late or repeated.
"""

from __future__ import annotations

__all__: list[str] = []
