"""Models that nobody has described, captured from what PyTorch runs for them; torch is imported here alone.

Importing this package loads neither torch nor transformers; tracing a model does.
"""
