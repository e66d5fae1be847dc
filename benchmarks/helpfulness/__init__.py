"""Are the examples chosen that help, rather than those that are similar?"""
