"""What a forward pass is made of: one file a primitive, with all that is known of it: what it weighs, computes and
moves, what autograd keeps of it, and how ranks divide it."""
