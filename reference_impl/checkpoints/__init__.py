"""What a subtask does for a checkpoint: the alignment of barriers, what is in flight, the cut, and the file it ends in.

Answers to Flink's packages `runtime.io.checkpointing`, `partition.consumer` and `checkpoint.channel`, and to its
`StatusWatermarkValve` and `SubtaskCheckpointCoordinator`. Of the barriers `single_barrier_handler` is the heart; of the
cut read `subtask_checkpoint_coordinator`, `async_checkpoint`, `state_handler`, in that order. Invariant: no channel is
blocked without a checkpoint that is pending, and each record in flight belongs to one side of each checkpoint (C28);
what is in a snapshot is the state between two elements, whatever happens while it is being written (C4, C7).
"""
