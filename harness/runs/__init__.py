"""One run as values: the order, the plan that its attempts get, the header that it claims, the outcome."""
