"""Keep finished answers: one file per kind of memory, all behind keeper.Keeper. Imported only as configured."""
