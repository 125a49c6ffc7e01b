"""A page about a model: `Answers` are its labels of test points, and `render` writes the HTML."""
