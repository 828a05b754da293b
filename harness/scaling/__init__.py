"""The lecture's "run experiments, fit a line, predict": tiny models trained on a language whose structure is known."""
