"""What conversations cost with the product's router and without: see `__main__`."""
