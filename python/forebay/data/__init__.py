"""Datasets: samples, annotations, further images, images in memory, and a job's cache."""
