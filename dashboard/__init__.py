"""The dashboard: see the cost, the formula, and how wrong it was. Pages are thin views; `main` puts them together."""
