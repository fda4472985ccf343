"""The operator protocol, harness side: drives any program that speaks it, and compares two of them.

Answers to Maelstrom's idea of a system under test as a program on two pipes. Invariant: no answer is used
before its shape and its place in the conversation were checked, and every wait has a limit.
"""
