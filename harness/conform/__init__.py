"""Certificates: what was judged, by what, what was found and what was not shown, checked again from their files alone.

Answers to Bowtie's reports and the conformance programme of Kubernetes. `docs/how-to/certify.md` shows one.
"""
