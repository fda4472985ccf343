"""The reference operator: Flink's asynchronous wait operator, its mailbox and its task, in plain Python."""
