"""`understudy demo`: its stage, its audience, what came of it, and the screen."""
