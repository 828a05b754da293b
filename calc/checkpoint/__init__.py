"""Files of weights by their headers: what they hold, and whether that is what a description says."""
