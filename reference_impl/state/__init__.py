"""State that an operator keeps between records, by key or by subtask: its values, time to live, timers and snapshots.

Answers to Flink's `runtime/state` and to its `InternalTimerService`. Operators use `keyed_state_backend` and
`operator_state`; read `state_descriptor`, `keyed_state_backend`, `copy_on_write_state_map`, in that order. Invariant:
values are stored encoded, so no caller shares an object with the state (S3).
"""
