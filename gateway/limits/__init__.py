"""What a key may do per minute."""
