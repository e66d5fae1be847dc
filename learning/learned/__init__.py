"""What is learnt, once for every kind: trained from rows, compared with what serves, published, followed."""
