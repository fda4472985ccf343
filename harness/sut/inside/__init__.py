"""What an attempt does to itself because a scenario asks for it, one file a fault."""
