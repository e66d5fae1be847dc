"""Whether requests keep their embeddings while a document is ingested."""
