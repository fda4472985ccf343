"""The task around the operators: what one thread does from restore to clean-up (M41-M49).

Answers to Flink's `runtime/tasks` and `runtime/io`. Read `stream_operator`, `operator_chain`, `stream_task`, in that
order. Of what a checkpoint does, in `reference_impl.checkpoints`, it knows only what its protocols say.
"""
