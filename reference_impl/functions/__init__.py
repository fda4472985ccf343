"""The functions that a user writes for a task, and the operators that run them.

Answers to Flink's `streaming/api/functions` and `streaming/api/operators`: keyed processing with timers, functions
with operator state, and the two-phase commit sink. One method of a function is required; `open`, `close`, `on_timer`,
state and notifications are optional. The asynchronous function is in `reference_impl.operator.functions`.
"""
