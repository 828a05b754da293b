"""A sweep over cases: the process that measures, what need not be measured again, and what is said meanwhile."""
