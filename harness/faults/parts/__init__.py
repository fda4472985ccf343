"""The parts of a scenario that faults need too: value types, sections of the file, and triggers."""
