"""Serving: what an engine's step takes, and what requests see of a server under load."""
