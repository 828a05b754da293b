"""How long a test waits for what must happen."""

from __future__ import annotations

PATIENCE = 900.0
"""Seconds, against hanging for ever: what is waited for is always a condition, and a busy machine may take its time."""
