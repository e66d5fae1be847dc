"""What does it cost to look at each tenant's own quality when there are thousands?"""
