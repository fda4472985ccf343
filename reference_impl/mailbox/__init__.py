"""The mailbox of a task's thread: its mail, the loop that runs the mail, timers, and the event loops underneath.

Answers to Flink's `runtime/tasks/mailbox` and to its `ProcessingTimeService`. Read `mailbox`, then `processor`.
"""
