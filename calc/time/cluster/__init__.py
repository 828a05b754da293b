"""What GPUs tell one another in a step."""
