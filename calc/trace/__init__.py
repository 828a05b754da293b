"""A forward pass over symbolic tensors, recorded once and read many times."""
