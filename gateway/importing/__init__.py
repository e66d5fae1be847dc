"""Past requests and answers, read from files into the bank, and the bank written and read as lines."""
