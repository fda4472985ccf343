"""What a subtask does for a checkpoint: the cut, the part written behind its back, and the file it ends in.

Answers to Flink's `SubtaskCheckpointCoordinator` and what it works with. Read `subtask_checkpoint_coordinator`,
`async_checkpoint_runnable`, `stream_operator_state_handler`, in that order; `snapshot_file` is by itself.
Invariant: what is in a snapshot is the state between two elements, whatever happens while it is being written
(C4, C7).
"""
