"""How much does a dollar of replay improve the answers?"""
