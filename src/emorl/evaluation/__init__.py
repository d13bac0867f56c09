"""How good a decomposition is, what the numbers of slots stand for, and what a pass of a model costs."""
