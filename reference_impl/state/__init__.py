"""State: what an operator keeps between records, by key or by subtask, its life, its timers, and how it is saved.

Answers to Flink's `runtime/state` and to its `InternalTimerService`. `keyed_state_backend` and `operator_state` are its
two doors; read `state_descriptor`, `keyed_state_backend`, `copy_on_write_state_map`, in that order. Invariant: values
lie encoded, so nobody shares one with the state (S3).
"""
