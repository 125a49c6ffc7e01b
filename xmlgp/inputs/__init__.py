"""What users give as points, and how it becomes features, labels and names: a `Source` is the one way in."""
