"""A suite on every device of a Ray cluster: one actor a device, results written by one process."""
