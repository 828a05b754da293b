"""The bench: what holds the calculator against the machine it runs on."""
