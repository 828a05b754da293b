"""Output of the command lines: tables, JSON lines and CSV on stdout, progress and notes on stderr."""
