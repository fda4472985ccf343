"""The faults that an attempt performs itself: inside faults and faults of calls."""
