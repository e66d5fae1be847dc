"""How good is a student after so many labels, and how fast does it answer?"""
