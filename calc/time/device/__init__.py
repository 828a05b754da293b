"""What is known of a device: a profile, a relative, a datasheet."""
