"""The benchmarks: they report ratios within one run, never absolute promises."""
