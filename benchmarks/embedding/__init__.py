"""What does an embedding cost, and how far do int8 vectors agree with f32?"""
