"""Faults inside an attempt, which it acts out itself: here are their words, and what shows that they bit."""
