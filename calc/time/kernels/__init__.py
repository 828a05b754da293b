"""Models of one kernel's time, over arrays, and which of them a kernel is asked of."""
