"""Parametrised layers. They take plain arguments, never configs."""
