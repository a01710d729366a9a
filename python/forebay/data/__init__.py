"""Datasets as Python sees them: samples, annotations, images in memory, a job's cache."""
