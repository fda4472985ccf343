"""The system under test: the lookup, its client and sink, and the parts that a planted defect may replace."""
