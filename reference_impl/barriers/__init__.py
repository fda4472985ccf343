"""What stands between the channels and the task: barriers, their alignment, what is in flight, and watermarks.

Answers to Flink's packages `runtime.io.checkpointing`, `partition.consumer` and `checkpoint.channel`, and to its
`StatusWatermarkValve`. Invariant: no channel is blocked without a checkpoint that is pending, and each record that is
in flight belongs to one side of each checkpoint (C28).
"""
