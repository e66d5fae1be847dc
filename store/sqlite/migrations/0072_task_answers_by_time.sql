-- Pages add up a task's last hours, however much of it is kept.
CREATE INDEX task_answers_by_time ON task_answers (tenant, slot, at_s);
