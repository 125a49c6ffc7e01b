"""The models: the table of them, their settings and recipes, and a package for each."""
