"""What a user writes for a task, and the operators that run it.

Answers to Flink's `streaming/api/functions` and `streaming/api/operators`: keyed processing with timers, functions with
state of their own, and the sink that commits in two phases. The asynchronous function has its place a floor below.
"""
