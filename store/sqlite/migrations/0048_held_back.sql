-- Examples that a person quarantined (store.held_back): every newcomer is compared with these, wherever the index stands.
CREATE INDEX accounts_held_back ON example_accounts (tenant, id) WHERE served_from_s >= 4102444800.0;
