"""The explorer: a local page on which slots are dragged, turned, removed and copied, and a server that paints them."""
