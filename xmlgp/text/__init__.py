"""Text: corpora of documents in the formats that people have them in, and the words that are their features."""
