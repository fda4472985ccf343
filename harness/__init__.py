"""Floodmark: prove, or refute with a counterexample, what a stream operator promises under faults."""
