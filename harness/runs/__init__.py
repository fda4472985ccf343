"""One run as values: the order, the plan for its attempts, the header of its history, the outcome."""
