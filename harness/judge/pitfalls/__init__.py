"""Pitfalls: mistakes in the use of asynchronous lookups that violate no invariant, found in what a run recorded."""
