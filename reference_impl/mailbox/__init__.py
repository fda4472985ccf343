"""The mailbox of a task's thread: its mail, the loop that runs it, its timers, and the event loops below it.

Answers to Flink's `runtime/tasks/mailbox` and to its `ProcessingTimeService`. Read `mailbox`, then `processor`.
"""
