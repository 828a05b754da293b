"""Pipelines as exact timelines: which stage does what when."""
