"""Random runs: scenarios drawn from a seed, very many of them run and judged, each repeatable from a scenario file."""
