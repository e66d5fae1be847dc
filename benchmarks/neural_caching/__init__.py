"""Does a student that is trained on a teacher's answers save calls, and is it right where it answers?"""
