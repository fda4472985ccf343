"""The asynchronous wait operator: calls, results, timeouts, retries, and the queues of what is in flight.

Answers to Flink's `operators/async` and its `AsyncDataStream`. Read `queues`, `result`, `async_wait`, in that order.
"""
