"""Tasks: classification in disguise, that a student may answer."""
