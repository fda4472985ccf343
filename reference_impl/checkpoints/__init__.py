"""A subtask's part in checkpoints: barrier alignment, in-flight data and snapshots.

Answers to Flink's packages `runtime.io.checkpointing`, `partition.consumer` and `checkpoint.channel`, and to its
`StatusWatermarkValve` and `SubtaskCheckpointCoordinator`. For barriers begin with `single_barrier_handler`; for the
snapshot read `subtask_checkpoint_coordinator`, `async_checkpoint`, `state_handler`. Invariant: channels are blocked
only while a checkpoint is pending, and each in-flight record belongs to one side of each checkpoint (C28); a snapshot
holds the state between two elements, even though it is written later (C4, C7).
"""
