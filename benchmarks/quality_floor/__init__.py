"""Does the quality floor hold when the small engine changes?"""
