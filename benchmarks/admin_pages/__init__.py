"""How long does each admin page take when the log is long?"""
