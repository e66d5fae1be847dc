"""Whether small engines that agree are right: a cascade on recorded answers."""
