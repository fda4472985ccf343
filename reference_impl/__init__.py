"""The reference operator: Flink's asynchronous wait operator, with its mailbox, task and checkpoints, in plain Python.

Begin with `elements`, `mailbox.mailbox`, `operator.async_wait`. It needs only the standard library and msgspec. Names
are imported from their modules: importing `reference_impl.elements` loads neither an event loop nor the operator.
"""
