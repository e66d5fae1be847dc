"""What workflows ask besides chat engines: embedders, rerankers, web searches and tools, each behind a queue of its own."""
