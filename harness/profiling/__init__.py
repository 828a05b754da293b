"""Measuring a device's speed: a few hundred points in a few minutes, and the profile that is fitted to them."""
