"""The operator protocol from the harness's side: drives any program that speaks it, and compares two of them.

Answers to Maelstrom's idea of a system under test as a program on two pipes. Invariant: no answer is believed
before its shape and its place in the conversation were checked, and no wait is without a limit.
"""
