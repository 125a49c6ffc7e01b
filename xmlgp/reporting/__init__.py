"""A page about a model: `Evidence` gathers its figures, `make_content` names them, `render` writes the HTML."""
