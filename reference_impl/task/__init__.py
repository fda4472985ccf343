"""The task that runs a chain of operators: what one thread does from restore to clean-up (M41-M49).

Answers to Flink's `runtime/tasks` and `runtime/io`. Read `stream_operator`, `operator_chain`, `stream_task`, in that
order. Checkpoints are in `reference_impl.checkpoints`; the task uses them through protocols.
"""
