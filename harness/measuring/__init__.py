"""How a time is found: clocks, sampling, what the machine said meanwhile, and what no machine exceeds."""
