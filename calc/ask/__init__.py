"""What can be asked of a model: a number, its formula, the size that gives it, and what moves it."""
