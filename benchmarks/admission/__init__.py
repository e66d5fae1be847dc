"""What does admission find, miss and find wrongly in the texts that would become examples, and what does it cost?"""
