"""The system under test: the lookup function, the planted defects, and one attempt of a subtask around them."""
