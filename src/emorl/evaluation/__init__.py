"""How good a decomposition is."""
