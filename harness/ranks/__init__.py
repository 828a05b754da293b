"""Several ranks of one job, which torchrun starts: collectives and training steps, each predicted first."""
