"""A server that suggests labels of texts over HTTP, by the REST interface of Annif."""
