"""Imports past requests and answers from files into the bank, and writes the bank as lines."""
