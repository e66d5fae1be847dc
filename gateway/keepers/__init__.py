"""What becomes of a finished answer: one file per kind of memory, all behind keeper.Keeper. Imported only as configured."""
