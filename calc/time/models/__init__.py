"""Models of the time of one kernel: plain functions of sizes and limits, over arrays, with what was fitted in them."""
