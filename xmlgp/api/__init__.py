"""What a user does with a model, a function each: train, learn, predict, evaluate, split, load; and their points."""
