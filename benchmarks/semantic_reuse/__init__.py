"""How often can the answer to a similar question be reused, and how often is it wrong?"""
