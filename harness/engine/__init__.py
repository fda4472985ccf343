"""The engine: carries orders out at any level, from the campaign down to one judged run."""
