"""What clients see when engines fail: published failures and some beyond them, replayed over real sockets."""
