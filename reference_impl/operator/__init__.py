"""The asynchronous wait operator: a call for each record, its result, timeout and retries, and the queues.

Answers to Flink's `operators/async` and its `AsyncDataStream`. Read `queues`, `result`, `async_wait`, in that order.
"""
