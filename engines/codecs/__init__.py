"""Wire formats: what a request and an answer look like in each API. One file for each; `table` names them all."""
