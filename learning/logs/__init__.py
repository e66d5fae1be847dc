"""What a recorded log tells: its requests and answers, asked again, and why little of it is answered by a smaller engine."""
