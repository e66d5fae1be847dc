"""Tasks, and the labelled inputs that students are trained on."""
