"""Reading JSON, TOML and CSV that nobody vouches for, each within bounds of time and memory."""
