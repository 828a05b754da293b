"""Blocks: each is one program, a forward pass over symbolic tensors that reads like its paper."""
