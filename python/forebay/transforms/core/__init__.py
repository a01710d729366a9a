"""Converts the user's transforms to the core's."""
