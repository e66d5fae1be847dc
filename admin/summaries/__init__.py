"""One file per page: from the sources to a dictionary, from which the page and its JSON twin are both made."""
