"""The commands of `python -m harness`, one file each: they parse, call and print."""
