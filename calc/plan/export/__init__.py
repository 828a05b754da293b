"""Plans as the files and flags that launch them, one file a tool, and such files read back."""
