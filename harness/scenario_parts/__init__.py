"""The parts of a scenario that faults need too: written values, sections of the file, and triggers."""
