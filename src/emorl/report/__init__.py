"""Pictures of what a model found."""
