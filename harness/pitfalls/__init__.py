"""Pitfalls: mistakes in the use of asynchronous lookups that break no promise, named from what a run left."""
