"""The benchmarks: ratios within one run, never absolute promises."""
