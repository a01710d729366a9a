"""From a dataset to batches: the loader, its options, position and helpers."""
