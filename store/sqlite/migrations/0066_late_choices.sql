-- An outcome that overtook its choice takes a new place in the log when the choice is there: who reads the log by served model
-- has passed its old one, where it was nobody's. REPLACE gives the same (tenant, request_id, key) a new id.
DROP TRIGGER outcomes_learn_their_model;
CREATE TRIGGER outcomes_learn_their_model AFTER INSERT ON choices BEGIN
    INSERT OR REPLACE INTO outcomes (tenant, request_id, key, model, source, at_s, engine, example_ids, served, quality,
        probability, cost_usd, prompt_tokens, completion_tokens, latency_s, detail)
    SELECT tenant, request_id, key, NEW.model, source, at_s, engine, example_ids, served, quality,
        probability, cost_usd, prompt_tokens, completion_tokens, latency_s, detail
    FROM outcomes WHERE tenant = NEW.tenant AND request_id = NEW.request_id AND model = '' ORDER BY id;
END;
