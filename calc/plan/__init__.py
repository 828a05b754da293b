"""Which plan: every way to spread a run over GPUs, timed and weighed; the best, as files that launch it."""
