"""What does finding the nearest examples cost, and how often does it find them?"""
