"""Which plan: every way to spread a training run over a cluster, timed and weighed; and files that launch it."""
