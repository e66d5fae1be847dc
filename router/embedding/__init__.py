"""From a request's text to its vector, and from the vector to candidate examples."""
