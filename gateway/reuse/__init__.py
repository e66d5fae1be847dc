"""The stage that may answer a similar question from memory, where somebody opted in."""
