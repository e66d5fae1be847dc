"""What can similarity do in the simulated world, and how well does its judge judge?"""
