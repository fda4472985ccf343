"""The engine: performs orders at any level, from the campaign down to one judged run."""
