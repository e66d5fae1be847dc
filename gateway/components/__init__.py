"""Components that run in the gateway itself: the house's embedder, a reranker over it, and the indexes of workflows."""
