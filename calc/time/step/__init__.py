"""Which kernels a run takes, from the record of its pass, and the step that they add up to."""
