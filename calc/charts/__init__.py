"""Pictures of results, one file a kind of picture; every function returns a chart as plain Vega-Lite.

`vega`, `axes`, `scales` and `colours` are what charts are made of; `saving` makes files of them.
"""
