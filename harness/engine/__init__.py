"""The one engine that runs a scenario at every level."""
