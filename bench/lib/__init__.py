"""The code that the benchmarks share."""
