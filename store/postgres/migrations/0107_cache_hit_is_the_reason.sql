-- Rows of earlier releases give a cache hit's reason another name: pages and filters know this one.

UPDATE requests SET reason = 'cache_hit' WHERE reason = 'exact_repeat';
