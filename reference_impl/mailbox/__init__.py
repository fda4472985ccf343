"""Timers of keyed operators: what is to happen for a key, in event time or in processing time.

Answers to Flink's `InternalTimerService` and what stands around it. `internal_timer_service` is the heart.
"""
