"""The one place that draws: charts, heat maps, and pictures of what models do."""
