"""What a model costs: one file a quantity, and `registry` that lists them all."""
