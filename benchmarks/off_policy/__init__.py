"""Do the intervals of `understudy evaluate` cover the truth?"""
