"""What building and optimising the graph of a workflow costs."""
