"""State: what an operator keeps between records, by key or by subtask, and how it is saved and moved.

Answers to Flink's `runtime/state`. `keyed_state_backend` and `operator_state_backend` are its two doors.
"""
