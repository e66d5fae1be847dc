-- What operators asked on the admin pages is called the same in the bill as there.

UPDATE kept_costs SET line = 'manual_queries' WHERE line = 'by_hand';
