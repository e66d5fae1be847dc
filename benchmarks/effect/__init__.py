"""Does a small model with past answers do what a large one does, on real models and recorded answers? `make effect`."""
