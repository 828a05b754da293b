"""Servers: measured by others, and measured here on a real one, beside what was predicted."""
