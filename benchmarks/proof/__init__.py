"""Does a small engine answer only where it is good, and does it then answer much?"""
