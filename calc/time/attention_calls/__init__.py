"""The time of one call of attention by what runs it."""
