"""What a run is: its settings, its directory, its weights, and the presets to start from."""
