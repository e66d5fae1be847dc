"""Does a small model with chosen examples answer as well as a large one? With real models in real engines."""
