"""The task around the operators: what one thread does from restore to clean-up (M41-M49).

Read `stream_operator`, `operator_chain`, `stream_task`, in that order.
"""
