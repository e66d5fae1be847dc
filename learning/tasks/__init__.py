"""Learns tasks: proposals, training of students, and what their agreement with the teacher proves."""
