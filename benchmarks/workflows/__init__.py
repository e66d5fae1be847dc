"""What workflows gain by their graph: four applications over simulated engines, over real ones, and on a GPU."""
