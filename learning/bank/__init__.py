"""The bank of examples: demonstrations, imports, deletion, sharing between tenants, embedding, warm prefixes."""
