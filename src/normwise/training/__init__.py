"""One stage loop, the recipe of several stages, gates between them, and observers."""
