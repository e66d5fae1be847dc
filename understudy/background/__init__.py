"""What works in the background of a gateway's worker, on threads of its own: chores, and what other processes are told."""
