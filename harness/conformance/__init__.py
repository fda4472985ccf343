"""Certificates: what a lookup, an operator or a pipeline was shown to keep, in a form that anybody can check."""
