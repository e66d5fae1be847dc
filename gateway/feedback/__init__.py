"""What people say of answers, and what becomes of it."""
