"""FLIP-12's first design of the asynchronous wait operator, as in Flink 1.2 to 1.9 (profile E).

Read `wait_operator`, then `buffers`. Invariant: it shares with the reference only what surrounds an operator
(elements, mailbox, timers, the function); the operator itself is written independently.

    | Flink 1.2 to 1.9 | here |
    |---|---|
    | `AsyncWaitOperator`, with `pendingStreamElementQueueEntry` | `wait_operator.EmitterWaitOperator` |
    | `Emitter`, `OperatorActions`, the checkpoint lock | `wait_operator.Emitter` and its lock |
    | `OrderedStreamElementQueue`, `UnorderedStreamElementQueue` | `buffers` |
    | `AsyncCollector`, later `ResultFuture`: `StreamRecordQueueEntry` | `buffers.RecordEntry` |
"""

from __future__ import annotations

from reference_impl.flip12.wait_operator import build_operator

__all__ = ["build_operator"]
