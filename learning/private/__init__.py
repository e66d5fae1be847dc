"""Differentially private banks: an extra that nothing else imports."""
