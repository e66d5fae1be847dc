-- What else is content of a request: JSON, deflated (store/decisions/kept_details.py). A repeat answered from memory has its own.
ALTER TABLE request_texts ADD COLUMN details BYTEA;
