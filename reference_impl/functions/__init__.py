"""What a user writes for a task, and the operators that run it.

Answers to Flink's `streaming/api/functions` and `streaming/api/operators`: keyed processing with timers, functions with
state of their own, and the sink that commits in two phases. One method of a function is obligatory; `open`, `close`,
`on_timer`, state and notifications are abilities that it may have. The asynchronous function is in
`reference_impl.operator.functions`.
"""
