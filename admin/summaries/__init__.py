"""One file per page: reads the sources into a dictionary, from which the page and its JSON twin are both made."""
