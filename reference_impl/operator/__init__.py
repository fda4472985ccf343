"""The operator's queues: what is in flight, and in which order it may leave.

Answers to Flink's `operators/async/queue`. `ordered` and `unordered` keep one contract, `protocol`.
"""
