"""From transforms to what the core runs."""
