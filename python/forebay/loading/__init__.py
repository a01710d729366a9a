"""From a dataset to batches: the Loader, its options, its position and its helpers."""
