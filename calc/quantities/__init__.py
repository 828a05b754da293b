"""What a model costs, one file a quantity; `calc.ask.registry` lists those that can be asked for by name."""
