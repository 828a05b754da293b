"""From what data comes in, bytes, pictures and sound, to tokens, the unit that every budget is in."""
