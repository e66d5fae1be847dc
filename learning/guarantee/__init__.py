"""Folds the logs into what is proven: of small engines, of students, of quality floors. The bounds are router.guarantee."""
