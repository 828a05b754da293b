"""Work in chunks, on this machine's cores or on a Ray cluster: results come in order, finished ones stay on disk."""
