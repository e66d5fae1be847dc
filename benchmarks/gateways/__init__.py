"""How much time and CPU does a request cost in this gateway and in others, in front of the same upstream?"""
