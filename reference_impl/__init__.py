"""The reference operator: Flink's asynchronous wait operator, its mailbox and its task, in plain Python.

Read `elements`, `mailbox.mailbox`, `operator.async_wait`, in that order: they are the whole idea. Only the standard
library and msgspec are needed. Names are imported from their modules: importing `reference_impl.elements` loads
neither an event loop nor the operator.
"""
