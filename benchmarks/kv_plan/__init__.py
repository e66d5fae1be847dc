"""Which prompt prefixes should an engine keep in its cache, and what does the order of examples save?"""
