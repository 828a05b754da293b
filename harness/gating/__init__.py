"""Whether a change makes cases slower or their counts different: two trees measured against each other."""
