"""ANSWERS: everything that can turn a request into an answer, behind one interface (engines.engine.Engine)."""
