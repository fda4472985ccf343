"""The system under test: the lookup, the planted defects, and one attempt of a subtask around them."""
