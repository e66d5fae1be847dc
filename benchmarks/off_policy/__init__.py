"""Do the intervals of `understudy learn evaluate` cover the truth?"""
