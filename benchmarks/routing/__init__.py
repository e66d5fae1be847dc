"""Does routing improve with the outcomes it sees?"""
