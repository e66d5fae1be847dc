-- An exact repeat has no row of texts any more: the log says that its texts are those kept under its exact key. Only what
-- is its own, who asked it and in which conversation, still has one. Repeats are found by the id of the answer, which is
-- the first one's: an index of their own would cost a hit as much as its row.

UPDATE requests SET no_text = 'of_key' WHERE no_text = '' AND outcome = 'hit' AND exact_key IS NOT NULL AND EXISTS
    (SELECT 1 FROM request_texts t WHERE t.tenant = requests.tenant AND t.request_id = requests.id
        AND t.conversation IS NULL);
DELETE FROM request_texts WHERE conversation IS NULL AND details IS NULL AND EXISTS
    (SELECT 1 FROM requests q WHERE q.id = request_texts.request_id AND q.no_text = 'of_key');
DROP INDEX request_texts_repeats;
