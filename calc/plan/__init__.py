"""Which plan: every way to spread a training run over a cluster, timed and weighed; the best, as files that launch it."""
